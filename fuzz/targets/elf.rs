//! ELF files, for the parser of the code that starts programs: it rejects a damaged file, and everything that it
//! accepts is within bounds.
#![no_main]

use process_builder::Image;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Image::program(bytes);
    let Ok(image) = Image::library(bytes) else { return };
    let (low, high) = image.span().unwrap();
    let mut end = low;
    for segment in &image.segments {
        let (first, after) = segment.pages();
        assert!(first >= end && after <= high && first < after);
        assert!(segment.file_size <= segment.memory_size);
        assert!(segment.offset + segment.file_size <= bytes.len() as u64);
        end = after;
    }
    assert!(image.align.is_power_of_two());
});
