<?php

/* Signed routes of Laravel itself: KEY EXPIRES; one link a line. */

require '/usr/share/php/Illuminate/Routing/autoload.php';
require '/usr/share/php/Illuminate/Http/autoload.php';

use Illuminate\Http\Request;
use Illuminate\Routing\Route;
use Illuminate\Routing\RouteCollection;
use Illuminate\Routing\UrlGenerator;

[, $key, $expires] = $argv;

$routes = new RouteCollection;
foreach (['file/{id}' => 'file', '/' => 'home'] as $uri => $name) {
    $routes->add(new Route(['GET'], $uri, ['as' => $name, 'uses' => fn () => 0]));
}
$routes->refreshNameLookups();

$url = new UrlGenerator($routes, Request::create('https://www.example.com/'));
$url->setKeyResolver(fn () => $key);
$end = new DateTime("@$expires");

echo implode("\n", [
    $url->signedRoute('file', ['id' => 297887]),
    $url->signedRoute('file', ['id' => 'é /+', 'b' => '1&2', 'a' => '?'], $end),
    $url->signedRoute('file', ['id' => 297887], $end, false),
    $url->signedRoute('home'),
    $url->signedRoute('home', [], null, false),
    $url->signedRoute('home', ['q' => 'a?'], null, false),
]), "\n";
