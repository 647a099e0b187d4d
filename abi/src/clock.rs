//! Clock objects: options, updates and details.
//!
//! A clock maps a *reference* time (monotonic or boot) to a *synthetic* one by an offset and a rate. The options of a
//! call include the version of the structure that it takes.

use crate::{zx_ticks_t, zx_time_t};

consts! { TABLE;
    [u64]
        /// `zx_clock_create`: never runs backwards.
        ZX_CLOCK_OPT_MONOTONIC = 1 << 0;
        /// `zx_clock_create`: never jumps.
        ZX_CLOCK_OPT_CONTINUOUS = 1 << 1;
        /// `zx_clock_create`: starts at once, equal to its reference.
        ZX_CLOCK_OPT_AUTO_START = 1 << 2;
        /// `zx_clock_create`: the reference is boot time.
        ZX_CLOCK_OPT_BOOT = 1 << 3;
        /// `zx_clock_create`: can be mapped.
        ZX_CLOCK_OPT_MAPPABLE = 1 << 4;
        /// All of these.
        ZX_CLOCK_OPTS_ALL = 0x1f;
        /// `zx_clock_update`: the value is valid.
        ZX_CLOCK_UPDATE_OPTION_VALUE_VALID = 1 << 0;
        /// The newer name of `ZX_CLOCK_UPDATE_OPTION_VALUE_VALID`.
        ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID = 1 << 0;
        /// `zx_clock_update`: the rate is valid.
        ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID = 1 << 1;
        /// `zx_clock_update`: the error bound is valid.
        ZX_CLOCK_UPDATE_OPTION_ERROR_BOUND_VALID = 1 << 2;
        /// `zx_clock_update`: the reference value is valid.
        ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID = 1 << 3;
        /// Position of the version in the options.
        ZX_CLOCK_ARGS_VERSION_SHIFT = 58;
        /// Version 1 of the structure.
        ZX_CLOCK_ARGS_VERSION_1 = 1 << 58;
        /// Version 2 of the structure.
        ZX_CLOCK_ARGS_VERSION_2 = 2 << 58;
        /// All versions.
        ZX_CLOCK_ARGS_VERSION_MASK = 0x3f << 58;
        /// The error bound is unknown.
        ZX_CLOCK_UNKNOWN_ERROR = u64::MAX;
    [i32]
        /// The lowest rate adjustment, in parts per million.
        ZX_CLOCK_UPDATE_MIN_RATE_ADJUST = -1000;
        /// The highest rate adjustment, in parts per million.
        ZX_CLOCK_UPDATE_MAX_RATE_ADJUST = 1000;
}

structs! { STRUCTS;
    #[doc = "How to make a clock."]
    struct zx_clock_create_args_v1_t {
        /// The clock never shows an earlier time than this.
        backstop_time: zx_time_t,
    }
    #[doc = "A ratio of two clocks."]
    struct zx_clock_rate_t {
        /// Ticks of the synthetic clock ...
        synthetic_ticks: u32,
        /// ... per this many ticks of the reference.
        reference_ticks: u32,
    }
    #[doc = "From reference to synthetic time: (r - reference_offset) * rate + synthetic_offset."]
    struct zx_clock_transformation_t {
        /// Subtracted first.
        reference_offset: i64,
        /// Added last.
        synthetic_offset: i64,
        /// The factor in between.
        rate: zx_clock_rate_t,
    }
    #[doc = "All that is known about a clock."]
    struct zx_clock_details_v1_t {
        /// The options with which it was created.
        options: u64,
        /// The backstop time with which it was created.
        backstop_time: zx_time_t,
        /// Transformation of ticks.
        reference_ticks_to_synthetic: zx_clock_transformation_t,
        /// Transformation of nanoseconds.
        reference_to_synthetic: zx_clock_transformation_t,
        /// Nanoseconds, or `ZX_CLOCK_UNKNOWN_ERROR`.
        error_bound: u64,
        /// Time of this query.
        query_ticks: zx_ticks_t,
        /// When the value was last set.
        last_value_update_ticks: zx_ticks_t,
        /// When the rate was last set.
        last_rate_adjust_update_ticks: zx_ticks_t,
        /// When the error bound was last set.
        last_error_bounds_update_ticks: zx_ticks_t,
        /// Number of updates.
        generation_counter: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "A change of a clock."]
    struct zx_clock_update_args_v1_t {
        /// Parts per million.
        rate_adjust: i32,
        /// Zero.
        padding1: [u8; 4],
        /// The clock's new value.
        value: i64,
        /// Nanoseconds.
        error_bound: u64,
    }
    #[doc = "A change of a clock, at a given moment."]
    struct zx_clock_update_args_v2_t {
        /// Parts per million.
        rate_adjust: i32,
        /// Zero.
        padding1: [u8; 4],
        /// The clock's new value ...
        synthetic_value: i64,
        /// ... at this time of the reference.
        reference_value: i64,
        /// Nanoseconds.
        error_bound: u64,
    }
}
