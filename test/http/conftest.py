"""The fixtures that all tests here take."""

pytest_plugins = ["lib.site_fixtures"]
