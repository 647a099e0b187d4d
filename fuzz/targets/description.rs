//! The system description as the root task parses it, and the list of services as `init` parses it.
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
