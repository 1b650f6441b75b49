# frozen_string_literal: true

require 'fileutils'
require 'net/http'
require 'socket'
require 'tempfile'
require 'tmpdir'

# Servers of the tests, on ports of 127.0.0.1 that the system has chosen.
module Servers
  ROOT = File.expand_path('../../..', __dir__)
  DEADLINE = 60

  module_function

  # The memcached that most tests share.
  def memcached
    @memcached ||= Memcached.new.tap { |server| Minitest.after_run { server.stop } }
  end

  # Waits for a condition.
  def wait(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
    until (value = yield)
      raise "no #{what} after #{DEADLINE} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      IO.select(nil, nil, nil, 0.01)
    end
    value
  end

  # A port that nobody has, and a moment later nobody else.
  # Below those that the kernel gives to whoever asks for any.
  def free_port
    TCPServer.open('127.0.0.1', rand(10_000..30_000)) { |server| server.addr[1] }
  rescue Errno::EADDRINUSE
    retry
  end

  # A memcached, asked in its text protocol.
  class Memcached
    attr_reader :port

    def initialize(port = nil)
      @file = File.join(Dir.mktmpdir, 'port')
      user = Process.uid.zero? ? %w[-u root] : []
      @pid = spawn({ 'MEMCACHED_PORT_FILENAME' => @file }, 'memcached', *user, '-l', '127.0.0.1',
                   '-p', (port || -1).to_s, '-U', '0', '-m', '8', '-t', '1')
      @port = Servers.wait('memcached') { File.exist?(@file) && File.read(@file)[/TCP INET: (\d+)/, 1] }.to_i
    end

    def address
      "127.0.0.1:#{port}"
    end

    def stop
      return unless @pid

      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      @pid = nil
      FileUtils.rm_rf(File.dirname(@file))
    end

    # Holds it, as a hung machine does.
    def pause
      Process.kill(:STOP, @pid)
      Servers.wait('stop of each thread') { threads.all?('T') }
      yield
    ensure
      Process.kill(:CONT, @pid)
    end

    # The state of each, as in proc(5).
    def threads
      Dir["/proc/#{@pid}/task/*/stat"].map { |file| File.read(file).rpartition(')').last.split.first }
    end

    # The flags, the expiry and the bytes of a key, nil if it is not there.
    def stored(key)
      head, value = ask("get #{key}", "END\r\n").split("\r\n", 2)
      return if head == 'END'

      _, _, flags, length = head.split
      { flags: flags.to_i, bytes: value.byteslice(0, length.to_i) }
    end

    # Seconds until memcached forgets it, -1 for never.
    def seconds_left(key)
      ask("mg #{key} t", "\r\n")[/ t(-?\d+)/, 1].to_i
    end

    def put(key, value)
      ask("set #{key} 0 0 #{value.bytesize}\r\n#{value}", "\r\n")
    end

    def connections
      ask('stats', "END\r\n")[/total_connections (\d+)/, 1].to_i
    end

    private

    def ask(command, ending)
      TCPSocket.open('127.0.0.1', port) do |socket|
        socket.write("#{command}\r\n")
        answer = +''.b
        answer << socket.readpartial(65_536) until answer.end_with?(ending)
        answer
      end
    end
  end

  # nginx with the module, one memcached and a cache.
  class Nginx
    attr_reader :port, :files

    MODULE = ENV.fetch('NGX_MODULE', File.join(ROOT, 'build/ngx_http_sendfile_module.so'))
    BINARY = ENV.fetch('NGX_BINARY', '/usr/sbin/nginx')

    # +location+ takes the place of the one that serves.
    def initialize(memcached, location = nil)
      @folder = Dir.mktmpdir
      @files = File.join(@folder, 'files')
      FileUtils.mkdir_p([@files, File.join(@folder, 'logs')])
      FileUtils.chmod(0o755, @folder)
      @port = Servers.free_port
      File.write(File.join(@folder, 'nginx.conf'), configuration(location || serving(memcached)))
      @pid = spawn(BINARY, '-p', @folder, '-c', 'nginx.conf', '-e', 'logs/error.log', err: File::NULL)
      Servers.wait('nginx') { answers? }
    end

    def url
      "http://127.0.0.1:#{port}/sendfile-status"
    end

    def get(path)
      Net::HTTP.start('127.0.0.1', port, nil) { |http| http.get(path) }
    end

    def write(path, body)
      file = File.join(files, path)
      FileUtils.mkdir_p(File.dirname(file))
      File.binwrite(file, body)
      file
    end

    # Ends it; raises if its log has an alert.
    def stop
      Process.kill(:QUIT, @pid)
      Process.wait(@pid)
      alerts = log.lines.grep(/\[(alert|emerg)\]|Sanitizer/)
      raise alerts.join unless alerts.empty?
    ensure
      FileUtils.rm_rf(@folder)
    end

    private

    def answers?
      get('/')
    rescue SystemCallError
      raise "nginx has ended: #{log}" if Process.waitpid(@pid, Process::WNOHANG)
    end

    def log
      File.read(File.join(@folder, 'logs/error.log')).scrub
    end

    def serving(memcached)
      <<~CONF
        location ~ ^/file/(?<name>.+)$ {
            http_sendfile on;
            http_sendfile_key file:$name;
            http_sendfile_lookup memcached://127.0.0.1:#{memcached.port};
            http_sendfile_root #{@files};
        }
      CONF
    end

    def configuration(location)
      <<~CONF
        load_module #{MODULE};
        daemon off;
        master_process off;
        pid nginx.pid;
        error_log logs/error.log info;
        events { }
        http {
            types { image/png png; text/plain txt; }
            access_log off;
            client_body_temp_path body;
            proxy_temp_path proxy;
            fastcgi_temp_path fastcgi;
            uwsgi_temp_path uwsgi;
            scgi_temp_path scgi;
            http_sendfile_cache_zone ids:8m;
            server {
                listen 127.0.0.1:#{port};
                location / { return 204; }
                http_sendfile_cache ids;
                http_sendfile_cache_valid 200 1h;
                http_sendfile_cache_valid 404 1h;
                #{location}
                location ^~ /sendfile-status { http_sendfile_status write; }
            }
        }
      CONF
    end
  end
end
