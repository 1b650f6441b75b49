# frozen_string_literal: true

require_relative 'helper'

# From publish to the file, through nginx with the module.
class TestNginx < GemTest
  def setup
    super
    @nginx = Servers::Nginx.new(memcached)
    configure do |c|
      c.memcached = memcached.address
      c.key = 'file:'
      c.root = @nginx.files
      c.purge_url = @nginx.url
    end
  end

  def teardown
    @nginx.stop
  end

  def id
    "#{name}-#{object_id}"
  end

  def assert_served(body, id)
    answer = @nginx.get("/file/#{id}")
    assert_equal ['200', body], [answer.code, answer.body]
    answer
  end

  def test_a_published_file_is_served
    NgxSendfile.publish(id, @nginx.write('29/7887.txt', 'text'))
    assert_equal 'text/plain', assert_served('text', id)['Content-Type']
    assert_nil @nginx.get("/file/#{id}")['Content-Disposition']
  end

  def test_names_that_are_not_decoded
    ['100%.txt', 'a b', 'what?#x', '見積書.pdf', '😀', 'a+b', "\xFFx", '{"path":"b"}',
     '%2e%2e'].each.with_index do |path, n|
      @nginx.write(path, path)
      NgxSendfile.publish("#{id}#{n}", path)
      assert_served(path.b, "#{id}#{n}")
    end
  end

  def test_all_fields
    NgxSendfile.publish(id, @nginx.write('a.bin', 'data'), name: '見積書 1.pdf', type: 'application/pdf',
                                                           disposition: 'attachment', expires: Time.now + 60,
                                                           headers: { 'Cache-Control' => 'max-age=60' })
    answer = assert_served('data', id)
    assert_equal 'application/pdf', answer['Content-Type']
    assert_equal 'max-age=60', answer['Cache-Control']
    assert_match(/\Aattachment; .*filename\*=UTF-8''%E8%A6%8B/, answer['Content-Disposition'])
  end

  def test_a_change_is_seen_at_once
    NgxSendfile.publish(id, @nginx.write('1', 'one'))
    assert_served('one', id)
    NgxSendfile.publish(id, @nginx.write('2', 'two'))
    assert_served('two', id)
  end

  def test_without_a_purge_the_cache_goes_on
    NgxSendfile.publish(id, @nginx.write('1', 'one'))
    assert_served('one', id)
    NgxSendfile.publish(id, @nginx.write('2', 'two'), purge: false)
    assert_served('one', id)
    NgxSendfile.purge(id)
    assert_served('two', id)
  end

  def test_purge_all
    %w[1 2].each do |name|
      NgxSendfile.publish(id, @nginx.write(name, name), purge: false)
      NgxSendfile.purge_all
      assert_served(name, id)
    end
  end

  def test_a_withdrawn_file_is_gone_at_once
    NgxSendfile.publish(id, @nginx.write('1', 'one'))
    assert_served('one', id)
    NgxSendfile.unpublish(id)
    assert_equal '404', @nginx.get("/file/#{id}").code
  end

  def test_an_unknown_id_is_there_once_it_is_published
    assert_equal '404', @nginx.get("/file/#{id}").code
    NgxSendfile.publish(id, @nginx.write('1', 'one'))
    assert_served('one', id)
  end
end
