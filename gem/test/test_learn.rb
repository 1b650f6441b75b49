# frozen_string_literal: true

require_relative 'helper'
require 'active_support'
require 'active_support/time'

# The option learn.
class TestLearn < GemTest
  def seconds(value)
    NgxSendfile::Learn.seconds(value)
  end

  def test_times
    assert_equal 600, seconds(600)
    assert_equal 600, seconds(10.minutes)
    assert_equal 1, seconds(1.9)
    assert_equal 2, seconds(5/2r)
    assert_equal 2_147_483_647, seconds(2_147_483_647)
  end

  def test_never
    assert_nil seconds(nil)
    assert_nil seconds(false)
  end

  def test_nonsense_says_what_to_write
    [true, '600', '10 minutes', '', :long, [600], {}, Time.now, Date.new(2030), Float::NAN, Float::INFINITY,
     0, -1, -10.minutes, 0.5, 2**31, 100.years, Object.new, 2i].each do |value|
      assert_refused(NgxSendfile::InvalidOption, 'learn: ', 'write learn: 10.minutes') { seconds(value) }
    end
  end
end
