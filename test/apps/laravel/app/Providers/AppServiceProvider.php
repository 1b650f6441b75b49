<?php

declare(strict_types=1);

namespace App\Providers;

use Illuminate\Support\Facades\Route;
use Illuminate\Support\ServiceProvider;
use Symfony\Component\HttpFoundation\BinaryFileResponse;

class AppServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        // nginx says X-Sendfile-Type: X-Sendfile, and sends the file
        BinaryFileResponse::trustXSendfileTypeHeader();

        Route::group([], base_path('routes/files.php'));
        Route::middleware('web')->group(base_path('routes/web.php'));
    }
}
