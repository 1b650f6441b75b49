# frozen_string_literal: true

# Writes a line for each request before it is answered: how often the
# application was asked.
class CountRequests
  def initialize(app)
    @app = app
  end

  def call(env)
    line = "#{env['REQUEST_METHOD']} #{env['REQUEST_URI'] || env['PATH_INFO']}\n"
    File.write(ENV.fetch("APP_COUNT"), line, mode: "a")
    @app.call(env)
  end
end
