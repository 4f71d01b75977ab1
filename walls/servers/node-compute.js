// Computes for each answer, on the one thread that node gives to JavaScript.
const http = require('node:http');

function primesBelow(limit) {
  let count = 0;
  for (let n = 2; n < limit; n++) {
    let prime = true;
    for (let d = 2; d * d <= n; d++) {
      if (n % d === 0) {
        prime = false;
        break;
      }
    }
    if (prime) count++;
  }
  return count;
}

http
  .createServer((request, response) => response.end(`${primesBelow(10000)}\n`))
  .listen(18181, '127.0.0.1');
