// The mix of ten.toml, as k6 has it.
import http from 'k6/http';

const terms = open(__ENV.TERMS).trim().split('\n').slice(1);
const bounds = [];
for (let route = 0, sum = 0; route < 10; route++) {
  sum += 10 - route;
  bounds.push(sum);
}
const seconds = Number(__ENV.SECONDS);

export const options = { vus: Number(__ENV.VUS), duration: `${seconds}s`, discardResponseBodies: true };

export default function () {
  const drawn = 1 + Math.floor(Math.random() * bounds[9]);
  const route = bounds.findIndex((bound) => drawn <= bound);
  const term = terms[Math.floor(Math.random() * terms.length)];
  http.get(`${__ENV.ORIGIN}/simple?r=${route}&q=${term}`, { tags: { name: `route ${route}` } });
}

export function handleSummary(data) {
  const requests = data.metrics.http_reqs.values;
  const failed = data.metrics.http_req_failed.values.passes;
  const summary = { answered: requests.count - failed, failed, seconds: requests.count / requests.rate };
  return { stdout: JSON.stringify(summary) + '\n' };
}
