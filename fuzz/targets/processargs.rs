//! Start messages, and requests to a loader service. The first byte is the number of handles.
#![no_main]

use processargs::Message;
use processargs::ldsvc::{Request, Response};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&handles, bytes)) = bytes.split_first() else { return };
    let handles = usize::from(handles);
    if let Ok(message) = Message::parse(bytes, handles) {
        assert_eq!(message.handles().len(), handles);
        let strings = [message.args(), message.environ(), message.names()];
        let length: usize = strings.into_iter().flatten().map(|string| string.len() + 1).sum();
        // Each of the three may take up the whole message.
        assert!(length <= 3 * bytes.len());
    }
    if let Ok((transaction, request)) = Request::decode(bytes, handles) {
        let mut out = [0; 2048];
        if let Ok(length) = request.encode(transaction, &mut out) {
            assert_eq!(Request::decode(&out[..length], handles), Ok((transaction, request)));
        }
    }
    let _ = Response::decode(bytes, handles);
});
