// The mix of ten.toml, as k6 has it.
import http from 'k6/http';

const terms = open(__ENV.TERMS).trim().split('\n').slice(1);
const bounds = [];
for (let route = 0, sum = 0; route < 10; route++) {
  sum += 10 - route;
  bounds.push(sum);
}
const seconds = Number(__ENV.SECONDS);
const depth = Number(__ENV.DEPTH);

export const options = {
  vus: Number(__ENV.VUS),
  duration: `${seconds}s`,
  discardResponseBodies: true,
  insecureSkipTLSVerify: true,
  batch: depth,
  batchPerHost: depth,
};

function one() {
  const drawn = 1 + Math.floor(Math.random() * bounds[9]);
  const route = bounds.findIndex((bound) => drawn <= bound);
  const term = terms[Math.floor(Math.random() * terms.length)];
  return ['GET', `${__ENV.ORIGIN}/simple?r=${route}&q=${term}`, null, { tags: { name: `route ${route}` } }];
}

// The streams of a connection are those of a batch.
export default function () {
  if (depth === 1) {
    http.request(...one());
  } else {
    http.batch(Array.from({ length: depth }, one));
  }
}

export function handleSummary(data) {
  const requests = data.metrics.http_reqs.values;
  const failed = data.metrics.http_req_failed.values.passes;
  const summary = { answered: requests.count - failed, failed, seconds: requests.count / requests.rate };
  return { stdout: JSON.stringify(summary) + '\n' };
}
