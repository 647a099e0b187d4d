//! Panics.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use crate::roles::{output, text};

/// Hooks belong to the whole process; the tests run one after the other.
fn quietly<T>(act: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = act();
    panic::set_hook(hook);
    result
}

pub fn backtraces() {
    let trace = Backtrace::force_capture();
    assert_eq!(trace.status(), BacktraceStatus::Captured);
    assert!(trace.to_string().lines().count() > 2);
}

pub fn caught() {
    quietly(|| {
        let dropped = Arc::new(Mutex::new(Vec::new()));
        struct Note(Arc<Mutex<Vec<u8>>>, u8);
        impl Drop for Note {
            fn drop(&mut self) {
                assert!(std::thread::panicking());
                self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.1);
            }
        }
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            let _first = Note(dropped.clone(), 1);
            let _second = Note(dropped.clone(), 2);
            panic!("with {}", std::hint::black_box("text"));
        }));
        assert_eq!(result.unwrap_err().downcast_ref::<String>().unwrap(), "with text");
        assert_eq!(*dropped.lock().unwrap(), [2, 1]);
        let payload = panic::catch_unwind(|| panic::panic_any(17u64)).unwrap_err();
        let again = panic::catch_unwind(AssertUnwindSafe(|| panic::resume_unwind(payload))).unwrap_err();
        assert_eq!(*again.downcast::<u64>().unwrap(), 17);
        assert!(!std::thread::panicking());
        let nested = panic::catch_unwind(|| {
            let _ = panic::catch_unwind(|| panic!("inner"));
            panic!("outer");
        });
        assert_eq!(*nested.unwrap_err().downcast::<&str>().unwrap(), "outer");
    });
}

pub fn hooks() {
    let seen = Arc::new(Mutex::new(String::new()));
    let told = seen.clone();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().unwrap();
        *told.lock().unwrap() = format!("{} in {}", info.payload_as_str().unwrap(), place.file());
    }));
    let _ = panic::catch_unwind(|| panic!("seen"));
    panic::set_hook(before);
    assert_eq!(*seen.lock().unwrap(), format!("seen in {}", file!()));
}

/// No panic uses up resources permanently.
pub fn thousands() {
    let caught =
        || (0..5000).filter(|n| panic::catch_unwind(|| assert_eq!(std::hint::black_box(*n), 5000)).is_err()).count();
    quietly(|| {
        assert_eq!(std::thread::spawn(caught).join().unwrap(), 5000);
        let through_frames = || {
            let kept = vec![1, 2, 3];
            (0..2000).filter(|_| panic::catch_unwind(|| panic::resume_unwind(Box::new(kept.clone()))).is_err()).count()
        };
        assert_eq!(std::thread::spawn(through_frames).join().unwrap(), 2000);
    });
}

fn aborts(role: &str, saying: &str) {
    let output = output(role);
    assert!(!output.status.success() && output.status.code() != Some(101), "{}", output.status);
    assert!(text(&output.stderr).contains(saying), "{}", text(&output.stderr));
}

pub fn in_drop_aborts() {
    aborts("drop", "panic in a destructor during cleanup");
}

pub fn in_c_function_aborts() {
    aborts("c", "panic in a function that cannot unwind");
}
