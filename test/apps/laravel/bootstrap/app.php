<?php

declare(strict_types=1);

// Debian's packages; with Composer it is vendor/autoload.php
require_once 'Illuminate/autoload.php';

spl_autoload_register(function (string $class): void {
    if (str_starts_with($class, 'App\\')) {
        require dirname(__DIR__) . '/app/' . strtr(substr($class, 4), '\\', '/') . '.php';
    }
});

$app = new Illuminate\Foundation\Application(dirname(__DIR__));
$app->useStoragePath(getenv('APP_STORAGE'));

$app->singleton(Illuminate\Contracts\Http\Kernel::class, App\Http\Kernel::class);
$app->singleton(
    Illuminate\Contracts\Debug\ExceptionHandler::class,
    App\Exceptions\Handler::class
);

return $app;
