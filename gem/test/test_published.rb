# frozen_string_literal: true

require_relative 'helper'
require_relative 'support/models'

# Models: what is in memcached after a commit.
class PublishedTest < GemTest
  def setup
    super
    configure { |c| c.memcached = memcached.address }
    [Document, Page, Other].each(&:delete_all)
    %w[page:a page:b page:c].each { |key| NgxSendfile.unpublish(key) }
  end

  def stored(key)
    memcached.stored(key)&.fetch(:bytes)
  end

  def path_of(key)
    stored(key)&.then { |bytes| bytes.start_with?('{') ? JSON.parse(bytes)['path'] : bytes }
  end
end

# What is published and withdrawn, and when.
class TestPublished < PublishedTest
  def test_all_fields
    document = Document.create!(path: 'a/b', title: '見積書.txt', gone_at: Time.at(2_000_000_000))
    assert_equal({ 'path' => 'a/b', 'name' => '見積書.txt', 'type' => 'text/plain', 'disposition' => 'attachment',
                   'headers' => { 'ETag' => "\"#{document.id}\"" }, 'expires' => 2_000_000_000 },
                 JSON.parse(stored(document.id)))
  end

  def test_create_update_destroy
    document = Document.create!(path: 'a')
    assert_equal 'a', path_of(document.id)
    document.update!(path: 'b')
    assert_equal 'b', path_of(document.id)
    document.destroy!
    assert_nil stored(document.id)
  end

  def test_nothing_before_the_commit
    Document.transaction do
      @document = Document.create!(path: 'a')
      assert_nil stored(@document.id)
    end
    assert_equal 'a', path_of(@document.id)
  end

  def rolled_back
    Document.transaction do
      yield
      raise ActiveRecord::Rollback
    end
  end

  def test_nothing_of_a_rollback
    document = Document.create!(path: 'a')
    rolled_back { document.update!(path: 'b') }
    assert_equal 'a', path_of(document.id)
    rolled_back { document.destroy! }
    assert_equal 'a', path_of(document.id)
  end

  def test_several_saves_in_a_transaction
    document = Document.transaction do
      Document.create!(path: 'a').tap do |created|
        created.update!(path: 'b')
        created.update!(title: 'c')
      end
    end
    assert_equal 'b', path_of(document.id)
  end

  def in_two_objects(id)
    first, second = Array.new(2) { Document.find(id) }
    Document.transaction { yield first, second }
  end

  def test_two_objects_of_a_row_in_a_transaction
    id = Document.create!(path: 'a').id
    in_two_objects(id) do |first, second|
      first.update!(path: 'b')
      second.update!(path: 'c')
    end
    assert_equal 'c', path_of(id)
  end

  def test_two_objects_of_a_row_that_is_removed
    id = Document.create!(path: 'a').id
    in_two_objects(id) do |first, second|
      first.update!(path: 'b')
      second.destroy!
    end
    assert_nil stored(id)
  end

  def test_the_condition
    document = Document.create!(path: 'a', secret: true)
    assert_nil stored(document.id)
    document.update!(secret: false)
    assert_equal 'a', path_of(document.id)
    document.update!(secret: true)
    assert_nil stored(document.id)
  end

  def test_no_path_is_withdrawn
    document = Document.create!(path: 'a')
    document.update!(path: '')
    assert_nil stored(document.id)
    document.update!(path: 'b')
    document.update!(path: nil)
    assert_nil stored(document.id)
  end

  def test_an_expired_one_is_withdrawn
    document = Document.create!(path: 'a')
    document.update!(gone_at: Time.now - 60)
    assert_nil stored(document.id)
  end

  def test_a_subclass_has_its_own
    assert_equal 'a', stored(Report.create!(path: 'a').id)
    assert_equal 'text/plain', JSON.parse(stored(Document.create!(path: 'a').id))['type']
  end

  def test_by_hand
    document = Document.create!(path: 'a')
    NgxSendfile.unpublish(document.id)
    assert document.publish_file
    assert_equal 'a', path_of(document.id)
    assert document.unpublish_file
    assert_nil stored(document.id)
  end
end

# Keys that change.
class TestPublishedKeys < PublishedTest
  def test_a_new_key_takes_the_place_of_the_old
    page = Page.create!(slug: 'a', path: 'x')
    page.update!(slug: 'b')
    assert_equal([nil, 'x'], %w[page:a page:b].map { |key| stored(key) })
  end

  def test_two_new_keys_in_a_transaction
    page = Page.create!(slug: 'a', path: 'x')
    Page.transaction do
      page.update!(slug: 'b')
      page.update!(slug: 'c')
    end
    assert_equal([nil, nil, 'x'], %w[page:a page:b page:c].map { |key| stored(key) })
  end

  def test_there_and_back
    page = Page.create!(slug: 'a', path: 'x')
    Page.transaction do
      page.update!(slug: 'b')
      page.update!(slug: 'a')
    end
    assert_equal(['x', nil], %w[page:a page:b].map { |key| stored(key) })
  end

  def test_a_rollback_keeps_the_old
    page = Page.create!(slug: 'a', path: 'x')
    Page.transaction do
      page.update!(slug: 'b')
      raise ActiveRecord::Rollback
    end
    page.reload.update!(path: 'y')
    assert_equal(['y', nil], %w[page:a page:b].map { |key| stored(key) })
  end

  def test_removed_with_a_change_that_is_not_saved
    page = Page.create!(slug: 'a', path: 'x')
    page.slug = 'b'
    page.destroy!
    assert_nil stored('page:a')
  end

  def test_removed_with_another_ones_key
    other = Page.create!(slug: 'b', path: 'y')
    page = Page.create!(slug: 'a', path: 'x')
    page.slug = other.slug
    page.destroy!
    assert_equal([nil, 'y'], %w[page:a page:b].map { |key| stored(key) })
  end

  def test_removed_by_an_object_whose_change_another_published
    first, second = Page.create!(slug: 'a', path: 'x').then { |page| [page, Page.find(page.id)] }
    Page.transaction do
      first.update!(path: 'y')
      second.update!(slug: 'b')
    end
    assert_equal 'y', stored('page:b')
    second.destroy!
    assert_equal([nil, nil], %w[page:a page:b].map { |key| stored(key) })
  end

  def test_another_primary_key
    page = Page.create!(slug: 'a', path: 'x')
    page.update!(id: page.id + 100)
    assert_equal 'x', stored('page:a')
    document = Document.create!(path: 'x')
    old = document.id
    document.update!(id: old + 100)
    assert_equal [nil, 'x'], [path_of(old), path_of(old + 100)]
  end

  def test_no_key_any_more
    page = Page.create!(slug: 'a', path: 'x')
    page.update!(slug: nil)
    assert_nil stored('page:a')
  end
end

# What goes wrong after the commit.
class TestPublishedErrors < PublishedTest
  def nobody
    configure do |c|
      c.memcached = "127.0.0.1:#{Servers.free_port}"
      c.dalli_options = { socket_failure_delay: nil }
    end
  end

  def test_an_error_is_logged_and_the_record_saved
    nobody
    document = Document.create!(path: 'a')
    assert Document.exists?(document.id)
    assert_match(/ERROR.*ngx_sendfile: Document #{document.id}: cannot write the key "#{document.id}"/, @log.string)
  end

  def test_an_error_is_raised_if_asked_for
    nobody
    configure { |c| c.raise_errors = true }
    assert_refused(NgxSendfile::StoreError, 'cannot write') { Document.create!(path: 'raised') }
    assert Document.exists?(path: 'raised')
    assert_includes @log.string, 'cannot write'
  end

  def test_an_invalid_path_withdraws_the_old_one
    document = Document.create!(path: 'a')
    document.update!(path: '../b')
    assert_nil stored(document.id)
    assert_includes @log.string, 'has ".."'
  end

  def test_a_method_that_fails_withdraws_the_old_one
    document = Document.create!(path: 'a')
    failing = Document.find(document.id)
    Document.class_eval { define_method(:title) { raise 'no title' } }
    failing.update!(path: 'b')
    assert_nil stored(document.id)
    assert_includes @log.string, 'no title'
  ensure
    Document.class_eval { remove_method(:title) }
  end

  def test_a_condition_that_fails_withdraws_the_old_one
    document = Document.create!(path: 'a')
    Document.class_eval { define_method(:secret) { raise 'no secret' } }
    document.update!(title: 'b')
    assert_nil stored(document.id)
    assert_includes @log.string, 'no secret'
  ensure
    Document.class_eval { remove_method(:secret) }
  end

  def test_a_failed_purge_is_logged_and_the_record_written
    configure { |c| c.purge_url = "http://127.0.0.1:#{Servers.free_port}/s" }
    document = Document.create!(path: 'a')
    assert_equal 'a', path_of(document.id)
    assert_includes @log.string, 'cannot purge'
  end

  def test_a_model_without_published_as
    Other.create!(path: 'a')
    assert_includes @log.string, 'Other does not say what to publish: write published_as path: :file_path'
    assert_refused(NgxSendfile::InvalidOption, 'published_as') { Other.new.publish_file }
  end

  def test_an_unknown_field
    assert_refused(NgxSendfile::InvalidOption, 'no :filename', 'name:') do
      Class.new(Other) { published_as :id, path: :path, filename: :title }
    end
  end
end

# A model and nginx.
class TestPublishedNginx < PublishedTest
  def setup
    super
    @nginx = Servers::Nginx.new(memcached)
    configure do |c|
      c.key = 'file:'
      c.root = @nginx.files
      c.purge_url = @nginx.url
    end
    @page = Page.create!(slug: 'a', path: @nginx.write('one', '1'))
  end

  def teardown
    @nginx.stop
  end

  def served(*slugs)
    slugs.map { |slug| @nginx.get("/file/page:#{slug}").then { |answer| answer.code == '200' ? answer.body : nil } }
  end

  def test_a_change_is_seen_at_once
    assert_equal ['1'], served('a')
    @page.update!(path: @nginx.write('two', '2'))
    assert_equal ['2'], served('a')
  end

  def test_a_new_key_is_seen_at_once
    assert_equal ['1', nil], served('a', 'b')
    @page.update!(slug: 'b')
    assert_equal [nil, '1'], served('a', 'b')
  end

  def test_a_removal_is_seen_at_once
    assert_equal ['1'], served('a')
    @page.destroy!
    assert_equal [nil], served('a')
  end
end
