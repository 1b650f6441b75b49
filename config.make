# Copyright (C) the ngx_sendfile authors
#
# nginx's configure reads this when it writes the Makefile: the page of the
# status location, as bytes that C can include.

cat << END >> $NGX_MAKEFILE

$NGX_OBJS/ngx_http_sendfile_page_data.h: \\
		$ngx_addon_dir/src/status/status.html \\
		$ngx_addon_dir/src/status/status.css \\
		$ngx_addon_dir/src/status/status.js \\
		$ngx_addon_dir/src/status/bytes.sh
	sh $ngx_addon_dir/src/status/bytes.sh > $NGX_OBJS/page_data.tmp
	mv $NGX_OBJS/page_data.tmp $NGX_OBJS/ngx_http_sendfile_page_data.h

END
