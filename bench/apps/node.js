'use strict';

// Sends the files below BENCH_FILES as Express does: stat(), the headers, and
// the file as a stream.

const fs = require('fs');
const http = require('http');
const path = require('path');
const { pipeline } = require('stream');

const root = process.env.BENCH_FILES;

const server = http.createServer((request, response) => {
  const name = path.normalize(decodeURIComponent(request.url));

  if (request.method !== 'GET' || !name.startsWith('/files/')) {
    response.writeHead(404).end();
    return;
  }

  const file = path.join(root, name.slice('/files/'.length));

  fs.stat(file, (error, stat) => {
    if (error || !stat.isFile()) {
      response.writeHead(404).end();
      return;
    }

    response.writeHead(200, {
      'Accept-Ranges': 'bytes',
      'Cache-Control': 'public, max-age=0',
      'Content-Length': stat.size,
      'Content-Type': 'application/octet-stream',
      ETag: `W/"${stat.size.toString(16)}-${stat.mtimeMs.toString(16)}"`,
      'Last-Modified': stat.mtime.toUTCString(),
    });

    pipeline(fs.createReadStream(file), response, () => {});
  });
});

server.keepAliveTimeout = 3600 * 1000;
server.listen(Number(process.env.BENCH_PORT), '127.0.0.1');
