# A PSGI application that says hello, and whether its connection was kept: each
# of Starman's processes serves one connection at a time.

use strict;
use warnings;

my $body = $ENV{BENCH_BODY};
my $last = '';

sub {
    my $env  = shift;
    my $port = $env->{REMOTE_PORT};
    my $kept = $port eq $last ? 'yes' : 'no';

    $last = $port;

    return [
        200,
        [
            'Content-Type'   => 'text/plain',
            'Content-Length' => length($body),
            'X-Kept'         => $kept,
        ],
        [$body],
    ];
};
