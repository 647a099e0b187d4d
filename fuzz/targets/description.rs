//! Text formats: the system description with the root task's parser, and the list of services with `init`'s parser.
#![no_main]

use description::System;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(system) = System::decode(bytes) {
        let (instances, components) = (system.instances().count(), system.components().count());
        assert!(instances + components <= bytes.len());
    }
    let _ = System::embedded(bytes);
    if let Ok(services) = description::services::decode(bytes) {
        assert_eq!(description::services::decode(&description::services::encode(&services).unwrap()), Ok(services));
    }
});
