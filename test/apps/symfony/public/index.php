<?php

declare(strict_types=1);

/** Answers GET /files/ID, /download/ID, /public/ID and /mine/ID. */

use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Cookie;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\ResponseHeaderBag;

require_once 'Symfony/Component/HttpFoundation/autoload.php';


function find(string $id): ?array
{
    $json = file_get_contents(getenv('APP_FILES') . '/catalog.json');

    return json_decode($json, true)[$id] ?? null;
}


function answer(Request $request): Response
{
    preg_match('~^/(\w+)/(\d+)$~', $request->getPathInfo(), $match);
    [, $what, $id] = $match + [1 => '', 2 => ''];
    $row = find($id);

    if ($row === null) {
        return new Response("no such file\n", Response::HTTP_NOT_FOUND);
    }

    $response = new BinaryFileResponse(getenv('APP_FILES') . "/{$row['path']}");
    $response->headers->set('Content-Type', $row['type']);
    $response->setAutoEtag();
    $response->setPrivate();
    $response->setContentDisposition(
        $what === 'download'
            ? ResponseHeaderBag::DISPOSITION_ATTACHMENT
            : ResponseHeaderBag::DISPOSITION_INLINE
    );

    if ($what === 'public') {
        // the same for everybody: nginx may answer by itself for ten minutes
        $response->headers->set('X-Accel-Expires', '600');

    } elseif ($what === 'mine') {
        // only for who is logged in
        $response->headers->set('X-Accel-Expires', '600');
        $response->headers->setCookie(Cookie::create('session', 'user'));
    }

    return $response;
}


// how often the application was asked
file_put_contents(
    getenv('APP_COUNT'),
    "{$_SERVER['REQUEST_METHOD']} {$_SERVER['REQUEST_URI']}\n",
    FILE_APPEND
);

// nginx says X-Sendfile-Type: X-Sendfile, and sends the file
BinaryFileResponse::trustXSendfileTypeHeader();

$request = Request::createFromGlobals();
$response = answer($request);
$response->prepare($request);
$response->send();
