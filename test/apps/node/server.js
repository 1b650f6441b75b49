'use strict';

// Answers GET /files/ID, /download/ID, /public/ID, /brief/ID and /mine/ID.

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const folder = process.env.APP_FILES;


function find(id) {
  const catalog = JSON.parse(fs.readFileSync(path.join(folder, 'catalog.json')));
  return catalog[id];
}


// Node writes a header's characters as single bytes: give it those of UTF-8
function bytes(text) {
  return Buffer.from(text).toString('latin1');
}


function sendFile(response, row, disposition) {
  const name = encodeURIComponent(path.basename(row.path));

  response.setHeader('Content-Type', row.type);
  response.setHeader('Content-Disposition', `${disposition}; filename*=UTF-8''${name}`);

  // nginx sends it
  response.setHeader('X-Sendfile', bytes(path.join(folder, row.path)));
  response.end();
}


http.createServer((request, response) => {
  // how often the application was asked
  fs.appendFileSync(process.env.APP_COUNT, `${request.method} ${request.url}\n`);

  const [, what, id] = request.url.match(/^\/(\w+)\/(\d+)(?:\?|$)/) ?? [];
  const row = find(id);

  if (row === undefined) {
    response.writeHead(404).end('no such file\n');
    return;
  }

  if (what === 'public') {
    // the same for everybody, by the rules of HTTP
    response.setHeader('Cache-Control', 'public, max-age=600');

  } else if (what === 'brief') {
    response.setHeader('Cache-Control', 'public, max-age=1');

  } else if (what === 'mine') {
    response.setHeader('Cache-Control', 'private, max-age=600');
  }

  sendFile(response, row, what === 'download' ? 'attachment' : 'inline');
}).listen(process.env.APP_SOCKET);
