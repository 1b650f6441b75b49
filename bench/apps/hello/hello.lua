-- Hello world for Apache's mod_lua.

function handle(r)
    r.content_type = "text/plain"
    r:puts("hello world\n")
    return apache2.OK
end
