//! QEMU's reports about the machine's disk, over its protocol QMP: a JSON object per line.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};

use serde_json::Value;

use crate::line::Line;
use xtask_common::words;

/// Enables events.
const BEGIN: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n";

/// The C library's text for this error on the host.
const NO_SPACE: &str = "No space left on device";

/// Prints each kind of failure of the disk once, until the machine ends.
pub fn follow_monitor(mut monitor: Line) {
    if monitor.write_all(BEGIN).is_err() {
        return;
    }
    let (mut lines, mut buffer, mut told) = (words::Lines::default(), [0; 4096], BTreeSet::new());
    loop {
        match monitor.read(&mut buffer) {
            Ok(count) if count > 0 => lines.push(&buffer[..count], |line| {
                if let Some(text) = failure(line)
                    && told.insert(text.clone())
                {
                    words::say(&format!("hafnon: {text}"));
                }
            }),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// The message for the user, if the line reports a failure.
fn failure(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["event"] != "BLOCK_IO_ERROR" {
        return None;
    }
    let data = &event["data"];
    let operation = if data["operation"] == "read" { "read from" } else { "write to" };
    let reason = data["reason"].as_str().unwrap_or("it does not say why");
    // QEMU sets this field only if it stops the machine.
    if data["nospace"] == true || reason == NO_SPACE {
        return Some(format!(
            "the host's disk is full: a {operation} the machine's disk failed, and the system was told so"
        ));
    }
    Some(format!("a {operation} the machine's disk failed on the host, and the system was told so: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_disk() {
        let event = |data: &str| failure(&format!("{{\"event\": \"BLOCK_IO_ERROR\", \"data\": {data}}}"));
        let text = event(r#"{"operation": "write", "action": "report", "nospace": true, "reason": "x"}"#);
        assert!(text.unwrap().contains("the host's disk is full: a write to"));
        let text =
            event(r#"{"operation": "read", "action": "report", "nospace": false, "reason": "Input/output error"}"#);
        assert!(text.unwrap().ends_with(": Input/output error"));
        let text = event(r#"{"operation": "write", "nospace": false, "reason": "No space left on device"}"#);
        assert!(text.unwrap().contains("the host's disk is full"));
        assert!(event("7").is_some());
        for other in ["", "x", "[]", "{}", r#"{"QMP": {}}"#, r#"{"return": {}}"#, r#"{"event": "SHUTDOWN"}"#] {
            assert_eq!(failure(other), None, "{other}");
        }
    }
}
