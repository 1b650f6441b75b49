<?php

declare(strict_types=1);

/** Answers GET /files/ID, /download/ID, /public/ID and /mine/ID; of GET /link/ID the link to /signed/ID. */

$folder = getenv('APP_FILES');

// how often the application was asked
file_put_contents(
    getenv('APP_COUNT'),
    "{$_SERVER['REQUEST_METHOD']} {$_SERVER['REQUEST_URI']}\n",
    FILE_APPEND
);

/** A link that is good for some seconds. */
function signed(string $uri, int $seconds, string $key): string
{
    $uri .= (str_contains($uri, '?') ? '&' : '?') . 'expires=' . (time() + $seconds);
    $code = hash_hmac('sha256', $uri, hex2bin($key), true);
    $signature = rtrim(strtr(base64_encode($code), '+/', '-_'), '=');

    return "$uri&signature=$signature";
}

$uri = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
preg_match('~^/(\w+)/(\d+)$~', $uri, $match);
[, $what, $id] = $match + [1 => '', 2 => ''];

if ($what === 'link') {
    exit(signed("/signed/$id", (int) $_GET['for'], str_repeat('ab', 32)));
}

$catalog = json_decode(file_get_contents("$folder/catalog.json"), true);
$row = $catalog[$id] ?? null;

if ($row === null) {
    http_response_code(404);
    exit("no such file\n");
}

$path = "$folder/{$row['path']}";

if ($what === 'public') {
    // the same for everybody: nginx may answer by itself for ten minutes
    header('X-Accel-Expires: 600');

} elseif ($what === 'mine') {
    // only for who is logged in
    session_start();
    header('X-Accel-Expires: 600');
}

$disposition = $what === 'download' ? 'attachment' : 'inline';

header("Content-Type: {$row['type']}");
header(sprintf(
    "Content-Disposition: %s; filename*=UTF-8''%s",
    $disposition,
    rawurlencode(basename($path))
));

// nginx sends it
header("X-Sendfile: $path");
