<?php

declare(strict_types=1);

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;

// how often the application was asked
file_put_contents(
    getenv('APP_COUNT'),
    "{$_SERVER['REQUEST_METHOD']} {$_SERVER['REQUEST_URI']}\n",
    FILE_APPEND
);

$app = require __DIR__ . '/../bootstrap/app.php';

$kernel = $app->make(Kernel::class);
$response = $kernel->handle($request = Request::capture())->send();
$kernel->terminate($request, $response);
