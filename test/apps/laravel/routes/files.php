<?php

declare(strict_types=1);

use App\Http\Controllers\FileController;
use Illuminate\Routing\Middleware\ValidateSignature;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\Facades\URL;

// without a session

Route::get('/files/{id}', [FileController::class, 'show']);
Route::get('/download/{id}', [FileController::class, 'download']);
Route::get('/public/{id}', [FileController::class, 'public']);

Route::get('/signed/{id}', [
    'as' => 'signed',
    'middleware' => ValidateSignature::class,
    'uses' => [FileController::class, 'show'],
]);
Route::get('/link/{id}', fn (string $id) => URL::temporarySignedRoute(
    'signed',
    now()->addSeconds((int) request('for')),
    ['id' => $id]
));
