<?php

declare(strict_types=1);

namespace App\Http\Controllers;

use Illuminate\Routing\Controller;
use Symfony\Component\HttpFoundation\BinaryFileResponse;

class FileController extends Controller
{
    public function show(string $id): BinaryFileResponse
    {
        [$path, $type] = $this->find($id);

        return response()->file($path, ['Content-Type' => $type])
            ->setContentDisposition('inline');
    }

    public function download(string $id): BinaryFileResponse
    {
        [$path, $type] = $this->find($id);

        return response()->download($path, null, ['Content-Type' => $type]);
    }

    /** The same for everybody: nginx may answer by itself for ten minutes. */
    public function public(string $id): BinaryFileResponse
    {
        $response = $this->show($id);
        $response->headers->set('X-Accel-Expires', '600');

        return $response;
    }

    /** Only for who is logged in: its route is in the group "web". */
    public function mine(string $id): BinaryFileResponse
    {
        session(['visits' => session('visits', 0) + 1]);

        return $this->public($id);
    }

    /** In real life this asks a model. */
    private function find(string $id): array
    {
        $json = file_get_contents(getenv('APP_FILES') . '/catalog.json');
        $row = json_decode($json, true)[$id] ?? abort(404);

        return [getenv('APP_FILES') . "/{$row['path']}", $row['type']];
    }
}
