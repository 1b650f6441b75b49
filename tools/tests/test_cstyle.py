"""cstyle.py finds each fault that it claims to find, at its line, and no other."""

from __future__ import annotations

from pathlib import Path

import cstyle
import pytest

GOOD = """\

/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>


#define good_max(a, b)                                                        \\
    ((a) > (b) ? (a) : (b))


typedef struct {
    ngx_str_t   name;   /* "//" is no comment here */
} good_t;


static ngx_int_t good_prototype(ngx_pool_t *pool,
    ngx_str_t *name);


static ngx_command_t  good_commands[] = {

    { ngx_string("http://x"),
      NGX_HTTP_MAIN_CONF
      |NGX_CONF_TAKE1,
      NULL },

      ngx_null_command
};


/* a comment belongs to the function */

static ngx_int_t
good_prototype(ngx_pool_t *pool, ngx_str_t *name)
{
    u_char  *p, c;

    for ( ;; ) {
        if (pool == NULL
            || name->len == 0)
        {
            return NGX_ERROR;

        } else if (name->len > 3) {
            break;

        } else {
            c = '"';
        }
    }

    do {
        p = name->data + 2 * (1 | 2);
    } while (p == NULL);

    while (*p) {
        p++;
    }

    return good_max(c, 1) ? NGX_OK : NGX_ERROR;
}


#if (NGX_THREADS)

void
good_other(void)
{
}

#endif
"""


def body(*lines: str) -> str:
    """A file whose function has these lines."""
    return GOOD + "\n\nvoid\nbad(void)\n{\n" + "".join(f"{s}\n" for s in lines) + "}\n"


FIRST = GOOD.count("\n") + 6  # the first line of a body


def found(text: str, path: str = "src/a.c") -> list[tuple[int, str]]:
    return [(p.line, p.message) for p in cstyle.check_text(path, text)]


def assert_only(text: str, line: int, part: str, path: str = "src/a.c") -> None:
    problems = found(text, path)
    assert len(problems) == 1, problems
    assert problems[0][0] == line
    assert part in problems[0][1]


def test_good_code_passes() -> None:
    assert found(GOOD) == []
    assert found(body("    return;")) == []


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("    x = 1;" + " /* " + "a" * 64 + " */", "81 columns"),
        ("\tx = 1;", "a tab"),
        ("    x = 1; ", "space at the end"),
        ("    x = 1; // one", "// comment"),
        ("    ngx_sprintf(p, name);", "ngx_sprintf() is unbounded"),
        ("    sprintf(p, name);", "sprintf() is unbounded"),
        ("    vsprintf(p, name, args);", "vsprintf() is unbounded"),
        ("    strcpy(p, name);", "strcpy() is unbounded"),
        ("    strcat(p, name);", "strcat() is unbounded"),
        ("    gets(p);", "gets() is unbounded"),
        ("    strtok(p, name);", "strtok() is unbounded"),
        ("    p = alloca(9);", "alloca() is unbounded"),
        ("#if (nginx_version > 1023000)", "nginx_version outside"),
        ("    /* TODO: the rest */", "TODO"),
        ("    /* FIXME */", "FIXME"),
        ("    if(x) {", "no space between if and ("),
        ("    return(x);", "no space between return and ("),
        ("    for (;;) {", "write for ( ;; )"),
        ("    char* p;", "the * of a pointer"),
        ("    x = y &&", "wrap before the operator"),
        ("    x = y ||", "wrap before the operator"),
        ("    x = y |", "wrap before the operator"),
        ("    if (x) y = 1;", "if without braces"),
        ("    while (x) y = 1;", "while without braces"),
        ("    for (i = 0; i < n; i++) y = 1;", "for without braces"),
    ],
)
def test_fault_in_a_line(line: str, part: str) -> None:
    assert_only(body("    y = 2;", line, "    z = 3;"), FIRST + 1, part)


def test_braces_on_the_next_line_are_missed() -> None:
    assert_only(
        body("    if (x", "        && y)", "        z = 3;"), FIRST, "if without"
    )


def test_else_without_braces() -> None:
    text = body("    if (x) {", "        y = 1;", "    } else", "        y = 2;")
    assert_only(text, FIRST + 2, "else without braces")


def test_else_on_a_line_of_its_own() -> None:
    text = body("    if (x) {", "    }", "    else {", "    }")
    assert_only(text, FIRST + 2, "write } else on one line")


def test_words_in_comments_and_strings_are_no_code() -> None:
    assert (
        found(body('    x = "sprintf(a) if(b) || ";', "    /* for (;;) char* */")) == []
    )


def test_version_test_in_compat() -> None:
    text = body("#if (nginx_version < 1023000)")
    assert found(text, "src/ngx_http_sendfile_compat.h") == []


def test_return_type_on_the_same_line() -> None:
    text = GOOD + "\n\nstatic int bad(void)\n{\n}\n"
    assert_only(text, GOOD.count("\n") + 3, "the return type of bad()")


def test_brace_on_the_line_of_the_name() -> None:
    text = GOOD + "\n\nvoid\nbad(void) {\n}\n"
    assert_only(text, GOOD.count("\n") + 4, "the { of bad()")


@pytest.mark.parametrize("gap", ["", "\n", "\n/* what it does */\n\n"])
def test_too_few_blank_lines_before_a_function(gap: str) -> None:
    text = body("    return;") + gap
    line = text.count("\n") + 1
    assert_only(text + "void\nworse(void)\n{\n}\n", line, "two blank lines go before")


def test_three_blank_lines() -> None:
    text = GOOD + "\n\n\nvoid\nbad(void)\n{\n}\n"
    assert_only(text, GOOD.count("\n") + 3, "three blank lines")


def test_no_newline_at_the_end() -> None:
    assert_only(GOOD.rstrip("\n"), GOOD.count("\n"), "no newline at the end")


def test_blank_line_at_the_end() -> None:
    assert_only(GOOD + "\n", GOOD.count("\n") + 1, "blank line at the end")


def test_no_copyright() -> None:
    assert_only(GOOD.replace("ngx_sendfile authors", "others"), 1, "no line 'Copyright")


def test_long_function_fails_above_150_lines() -> None:
    inside = ["    x = 1;"] * (cstyle.MAX_FUNCTION_LINES - 2)
    assert found(body(*inside)) == []
    assert_only(body(*inside, "    x = 1;"), FIRST - 3, "bad() has 151 lines")


def test_long_function_is_listed_above_80_lines() -> None:
    inside = ["    x = 1;"] * (cstyle.GOOD_FUNCTION_LINES - 2)
    for lines, listed in ((inside, []), ([*inside, ""], ["bad() has 81 lines"])):
        style = cstyle.Style("src/a.c", body(*lines))
        assert style.check() == []
        assert [p.message for p in style.long_functions] == listed


def test_long_file() -> None:
    text = GOOD + "\n\n" + "int  x;\n" * (cstyle.MAX_FILE_LINES - GOOD.count("\n") - 2)
    assert found(text) == []
    assert_only(text + "int  x;\n", cstyle.MAX_FILE_LINES + 1, "901 lines")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src" / "store").mkdir(parents=True)
    (tmp_path / "src" / "good.c").write_text(GOOD)
    root = ["--root", str(tmp_path)]
    assert cstyle.main(root) == 0
    (tmp_path / "src" / "store" / "bad.h").write_text(GOOD + "int  x; \n")
    assert cstyle.main(root) == 1
    line = GOOD.count("\n") + 1
    assert capsys.readouterr().out == (
        f"src/store/bad.h:{line}: space at the end of the line\n"
    )
    assert cstyle.main([*root, str(tmp_path / "src" / "good.c")]) == 0
