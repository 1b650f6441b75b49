<?php

declare(strict_types=1);

use App\Http\Controllers\FileController;
use Illuminate\Support\Facades\Route;

// without a session

Route::get('/files/{id}', [FileController::class, 'show']);
Route::get('/download/{id}', [FileController::class, 'download']);
Route::get('/public/{id}', [FileController::class, 'public']);
