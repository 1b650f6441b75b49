<?php

// Writes keys with php-memcached, as standard input says in JSON:
//
//   servers: [host, port, weight] each
//   options: names of constants of the class Memcached and their values, which
//            may be such names as well
//   values:  what to set, by key

$task = json_decode(stream_get_contents(STDIN), true, 16, JSON_THROW_ON_ERROR);

$client = new Memcached();

foreach ($task['options'] as $name => $value) {
    if (is_string($value) && defined("Memcached::$value")) {
        $value = constant("Memcached::$value");
    }

    if (!$client->setOption(constant("Memcached::$name"), $value)) {
        fwrite(STDERR, "$name: {$client->getResultMessage()}\n");
        exit(1);
    }
}

$client->addServers($task['servers']);

foreach ($task['values'] as $key => $value) {
    if (!$client->set((string) $key, $value)) {
        fwrite(STDERR, "$key: {$client->getResultMessage()}\n");
        exit(1);
    }
}
