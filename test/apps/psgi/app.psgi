use strict;
use warnings;

use JSON::PP qw(decode_json);
use Plack::Builder;
use Plack::MIME;
use Plack::Request;
use Plack::Util;
use URI::Escape qw(uri_escape);

my $folder = $ENV{APP_FILES};


sub find_path {
    my ($id) = @_;

    open my $in, '<:raw', "$folder/catalog.json" or die "catalog.json: $!";
    my $row = decode_json(do { local $/; <$in> })->{$id} or return;

    my $path = "$folder/$row->{path}";
    utf8::encode($path);
    return $path;
}


sub send_file {
    my ($request, $id, $disposition) = @_;

    my $path = find_path($id)
        or return $request->new_response(404, [], "no such file\n");

    my ($name) = $path =~ m{([^/]+)\z};
    my $response = $request->new_response(200);
    $response->content_type(Plack::MIME->mime_type($path) // 'application/octet-stream');
    $response->header('Content-Disposition',
        "$disposition; filename*=UTF-8''" . uri_escape($name));

    # a body with a path: Plack::Middleware::XSendfile names it to nginx
    open my $file, '<:raw', $path or die "$path: $!";
    Plack::Util::set_io_path($file, $path);
    $response->body($file);
    return $response;
}


my $app = sub {
    my $request = Plack::Request->new(shift);
    my ($what, $id) = $request->path_info =~ m{\A/(\w+)/(\d+)\z}
        or return $request->new_response(404)->finalize;

    my $response = send_file($request, $id,
        $what eq 'download' ? 'attachment' : 'inline');

    if ($what eq 'public') {
        # the same for everybody: nginx may answer by itself for ten minutes
        $response->header('X-Accel-Expires', 600);

    } elsif ($what eq 'mine') {
        $response->header('X-Accel-Expires', 600);
        $response->cookies->{session} = { value => 'user', path => '/' };
    }

    return $response->finalize;
};


builder {
    # what keeps a connection: an answer to HTTP/1.0 has its length, and one to
    # HEAD no body
    enable 'Head';
    enable 'ContentLength';

    # how often the application was asked, and on which connections
    enable sub {
        my ($inner) = @_;
        sub {
            my ($env) = @_;
            open my $out, '>>', $ENV{APP_COUNT} or die "$ENV{APP_COUNT}: $!";
            print $out "$env->{REQUEST_METHOD} $env->{REQUEST_URI}"
                . " $env->{REMOTE_PORT}\n";
            close $out;
            $inner->($env);
        };
    };

    enable 'XSendfile', variation => 'X-Sendfile';
    $app;
};
