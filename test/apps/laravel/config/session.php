<?php

return [
    'driver' => 'cookie',
    'lifetime' => 120,
    'expire_on_close' => false,
    'cookie' => 'archive_session',
    'path' => '/',
    'domain' => null,
    'secure' => false,
    'http_only' => true,
    'same_site' => 'lax',
    'lottery' => [0, 100],
];
