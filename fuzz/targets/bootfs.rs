//! BOOTFS images: the parser rejects a damaged image, or reads it without an access beyond its end.
#![no_main]

use bootfs::Bootfs;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Bootfs::new(bytes) else { return };
    let directory = image.directory();
    for entry in directory.entries() {
        let data = image.data(&entry);
        assert_eq!(image.read(entry.name), directory.find(entry.name).map(|found| image.data(&found)));
        assert!(data.len() <= bytes.len());
    }
    directory.children("").take(1000).for_each(drop);
});
