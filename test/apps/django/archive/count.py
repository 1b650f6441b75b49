"""How often the application was asked."""

import os
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], HttpResponse]


def count_requests(answer: Answer) -> Answer:
    """Write a line for each request before it is answered."""

    def middleware(request: HttpRequest) -> HttpResponse:
        with open(os.environ["APP_COUNT"], "a", encoding="utf-8") as count:
            count.write(f"{request.method} {request.get_full_path()}\n")
        return answer(request)

    return middleware
