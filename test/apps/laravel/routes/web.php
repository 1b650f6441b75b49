<?php

declare(strict_types=1);

use App\Http\Controllers\FileController;
use Illuminate\Support\Facades\Route;

// with a session: each answer has a Set-Cookie

Route::get('/mine/{id}', [FileController::class, 'mine']);
