// Hello world for nginx's njs.

function hello(r) {
    r.headersOut['Content-Type'] = 'text/plain';
    r.return(200, 'hello world\n');
}

export default { hello };
