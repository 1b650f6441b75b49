# frozen_string_literal: true

require 'socket'

# Answers each connection with the next status, and keeps the requests.
class FakeNginx
  # For tests.
  module Use
    def with_nginx(*statuses)
      nginx = FakeNginx.new(*statuses)
      yield nginx
    ensure
      nginx&.stop
    end
  end

  attr_reader :requests

  def initialize(*statuses)
    @server = TCPServer.new('127.0.0.1', 0)
    @requests = []
    @thread = Thread.new { statuses.each { |status| answer(status) } }
  end

  def url(path = '/status')
    "http://127.0.0.1:#{@server.addr[1]}#{path}"
  end

  def stop
    @thread.kill
    @server.close
  end

  private

  def answer(status)
    socket = @server.accept
    head = +''
    head << socket.gets until head.end_with?("\r\n\r\n")
    @requests << head
    socket.write("HTTP/1.1 #{status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") if status
    socket.close if status
  end
end
