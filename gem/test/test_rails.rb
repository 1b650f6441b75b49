# frozen_string_literal: true

require_relative 'helper'
require 'open3'

# The Railtie and send_file, in applications that are booted for it.
class RailsTest < GemTest
  APP = File.join(__dir__, 'support/rails_app.rb')
  LIB = File.expand_path('../lib', __dir__)
  USUAL = %w[rails controllers gem application].freeze

  def boot(steps, *paths)
    out, error, status = Open3.capture3(RbConfig.ruby, '-I', LIB, APP, *steps, '--', *paths)
    assert status.success?, error
    JSON.parse(out.lines.last)
  end

  def header(*steps)
    told = boot(steps, '/files/plain')
    answer = told['answers'].first
    [told['header'], answer['headers']['X-Sendfile'] == told['file'], answer['body']]
  end
end

# x_sendfile_header, whatever comes first.
class TestRailtie < RailsTest
  SET = ['X-Sendfile', true, ''].freeze

  def test_the_usual_order
    assert_equal SET, header(*USUAL)
  end

  def test_the_gem_before_action_pack
    assert_equal SET, header('rails', 'gem', 'controllers', 'application')
  end

  def test_the_gem_before_rails
    assert_equal SET, header('gem', 'railtie', 'rails', 'controllers', 'application')
  end

  def test_the_gem_after_the_application
    assert_equal SET, header('rails', 'controllers', 'application', 'gem')
  end

  def test_the_applications_own_header_stays
    assert_equal ['X-Accel-Redirect', false], header(*USUAL, 'redirect').first(2)
    assert_equal ['X-Accel-Redirect', false], header('rails', 'controllers', 'application', 'redirect', 'gem').first(2)
  end

  def test_nil_of_the_application_stays
    assert_equal [nil, false, 'text'], header(*USUAL, 'none')
  end

  def test_an_initializer_of_the_application_wins
    assert_equal ['X-Theirs', false], header(*USUAL, 'initializer').first(2)
  end

  def test_rails_without_action_pack
    assert_empty boot(%w[rails gem records application])['answers']
  end
end

# learn of send_file.
class TestController < RailsTest
  def told
    @told ||= boot(USUAL, *%w[plain learn never public string negative missing error text].flat_map do |action|
      ["/files/#{action}", "/api/#{action}"]
    end)
  end

  # Of both kinds of controllers.
  def answers(action)
    index = %w[plain learn never public string negative missing error text].index(action)
    told['answers'][index * 2, 2]
  end

  def headers(action, *names)
    answers(action).map { |answer| answer['headers'].values_at(*names) }
  end

  def test_learn_adds_one_header
    plain, learn = %w[plain learn].map { |action| answers(action).map { |answer| answer['headers'] } }
    plain.zip(learn).each do |before, after|
      assert_equal ['600', told['file']], after.values_at('X-Accel-Expires', 'X-Sendfile')
      own = %w[X-Accel-Expires X-Request-Id X-Runtime Content-Disposition]
      assert_equal before.except(*own), after.except(*own)
    end
  end

  def test_without_learn_there_is_none
    %w[plain never text].each { |action| assert_equal [[nil], [nil]], headers(action, 'X-Accel-Expires') }
  end

  def test_the_caching_of_browsers_is_not_changed
    assert_equal headers('plain', 'Cache-Control'), headers('learn', 'Cache-Control')
    assert_match(/private/, headers('learn', 'Cache-Control').flatten.first)
    assert_equal [['max-age=300, public', '60']] * 2, headers('public', 'Cache-Control', 'X-Accel-Expires')
  end

  def test_nonsense
    %w[string negative].each do |action|
      answers(action).each do |answer|
        assert_equal 'NgxSendfile::InvalidOption', answer['error']
        assert_includes answer['message'], 'write learn: 10.minutes'
      end
    end
  end

  def test_a_missing_file_is_not_kept
    answers('missing').each { |answer| assert_equal 404, answer['status'] }
    assert_equal [[nil], [nil]], headers('missing', 'X-Accel-Expires')
  end

  def test_an_error_page_has_a_body
    answers('error').each { |answer| assert_equal [503, 'text'], answer.values_at('status', 'body') }
    assert_equal [[nil, nil]] * 2, headers('error', 'X-Sendfile', 'X-Accel-Expires')
  end

  def test_no_action_comes_with_it
    assert_equal %w[error learn missing negative never plain public string text], told['actions'].sort
  end
end
