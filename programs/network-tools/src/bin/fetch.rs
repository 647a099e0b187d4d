//! `fetch`: the content behind a URL of HTTP, to standard output or to a file.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use network_tools::{Arguments, visible};
use ureq::http::Response;
use ureq::{Agent, Body};

const USAGE: &str = "usage: fetch [-I] [-m SECONDS] [-o FILE] URL
  -I  print the status and the headers only    -m  take no longer    -o  write the content to a file";

/// Redirections that are followed at most.
const REDIRECTIONS: u32 = 10;
/// The exit code when the server has answered with an error, as curl's.
const REFUSED: u8 = 22;

/// Why it failed: a sentence, and the exit code.
struct Failure(String, u8);

impl<T: ToString> From<T> for Failure {
    fn from(why: T) -> Failure {
        Failure(why.to_string(), 1)
    }
}

/// The URL that the user means: `http` if there is no scheme.
fn url(word: &str) -> Result<String, String> {
    match word.split_once("://") {
        None => Ok(format!("http://{word}")),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => Ok(word.to_owned()),
        Some((scheme, _)) => Err(format!("{scheme}: not supported (there is no TLS); use http://")),
    }
}

/// Status and headers, one in a line. A server chooses them.
fn head<T>(response: &Response<T>) -> String {
    let mut lines = format!("{:?} {}\n", response.version(), response.status());
    for (name, value) in response.headers() {
        lines += &format!("{name}: {}\n", visible(&String::from_utf8_lossy(value.as_bytes())));
    }
    lines
}

/// Where a redirection leads. `None`: it is none.
fn location<T>(response: &Response<T>) -> Option<&str> {
    let is_one = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    response.headers().get("location").filter(|_| is_one)?.to_str().ok()
}

/// The URL that a redirection from this one means (RFC 3986, 5.2, without the dots of paths).
fn moved(from: &str, to: &str) -> Result<String, String> {
    let path_at = from.find("://").map_or(0, |at| at + 3);
    let path_at = from[path_at..].find(['/', '?', '#']).map_or(from.len(), |at| path_at + at);
    let (server, path) = from.split_at(path_at);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let is_absolute = to.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'));
    match to.as_bytes() {
        _ if is_absolute && to.contains("://") => url(to),
        _ if is_absolute => Err(format!("{to}: not supported; use http://")),
        [b'/', b'/', ..] => Ok(format!("http:{to}")),
        [b'/', ..] => Ok(format!("{server}{to}")),
        [] | [b'?' | b'#', ..] => Ok(format!("{server}{path}{to}")),
        _ => Ok(format!("{server}{}/{to}", path.rsplit_once('/').map_or("", |(folder, _)| folder))),
    }
}

/// The last answer, after redirections. Their contents are not read: they may have no end.
fn ask(arguments: &Arguments) -> Result<Response<Body>, Failure> {
    let [word] = arguments.words.as_slice() else { return Err(USAGE.into()) };
    let mut url = url(word)?;
    // The head of a redirection is what the user wants to see.
    let only_head = arguments.has('I');
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .build()
        .into();
    let end = arguments.seconds('m')?.map(|seconds| Instant::now() + seconds);
    for _ in 0..=REDIRECTIONS {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let request = if only_head { agent.head(&url) } else { agent.get(&url) };
        let response = request.config().timeout_global(left).build().call()?;
        match location(&response) {
            Some(to) if !only_head => url = moved(&url, to)?,
            _ => return Ok(response),
        }
    }
    Err(format!("more than {REDIRECTIONS} redirections").into())
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut response = ask(arguments)?;
    let output = |text: &[u8]| io::stdout().write_all(text);
    if arguments.has('I') {
        return Ok(output(head(&response).as_bytes())?);
    }
    let status = response.status();
    if !status.is_success() {
        return Err(Failure(format!("the server's answer is {status}"), REFUSED));
    }
    let mut content = response.body_mut().as_reader();
    match arguments.value('o') {
        Some(path) => {
            let mut file = File::create(path).map_err(|error| format!("{path}: {error}"))?;
            io::copy(&mut content, &mut file)?;
        }
        None => {
            io::copy(&mut content, &mut io::stdout().lock())?;
            io::stdout().flush()?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(1), "I", "mo");
    match arguments.map_err(Failure::from).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why, code)) => {
            let why = if why == USAGE { why } else { visible(&why) };
            // The reader of the errors may be gone, too.
            let _ = writeln!(io::stderr(), "fetch: {why}");
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread;

    /// A server that gives these answers, one to each connection; returns its address.
    fn server(answers: Vec<Vec<u8>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                stream.write_all(&answer).unwrap();
            }
        });
        address
    }

    fn arguments(words: &[&str]) -> Arguments {
        Arguments::parse(words.iter().map(ToString::to_string), "I", "mo").unwrap()
    }

    /// Fetches to a file; returns what is in it.
    fn fetched(answers: Vec<Vec<u8>>) -> Result<Vec<u8>, (String, u8)> {
        let path = std::env::temp_dir().join(format!("fetch-{:?}", thread::current().id()));
        let path = path.to_str().unwrap();
        let result = run(&arguments(&["-o", path, &server(answers)]));
        let content = std::fs::read(path);
        let _ = std::fs::remove_file(path);
        result.map(|()| content.unwrap()).map_err(|Failure(why, code)| (why, code))
    }

    #[test]
    fn urls() {
        assert_eq!(url("10.0.2.2:80/a").as_deref(), Ok("http://10.0.2.2:80/a"));
        assert_eq!(url("HTTP://host/").as_deref(), Ok("HTTP://host/"));
        assert!(url("https://host/").unwrap_err().contains("use http://"));
    }

    #[test]
    fn redirections() {
        let from = "http://host:80/a/b?c/d";
        for (to, is) in [
            ("http://other/x", "http://other/x"),
            ("//other/x", "http://other/x"),
            ("/x:y?z", "http://host:80/x:y?z"),
            ("x", "http://host:80/a/x"),
            ("?x", "http://host:80/a/b?x"),
            ("", "http://host:80/a/b"),
        ] {
            assert_eq!(moved(from, to).as_deref(), Ok(is), "{to}");
        }
        assert_eq!(moved("http://host", "x").as_deref(), Ok("http://host/x"));
        assert_eq!(moved("http://host?x", "/").as_deref(), Ok("http://host/"));
        assert!(moved(from, "https://host/").unwrap_err().contains("use http://"));
        assert!(moved(from, "file:///x").is_err());
        assert!(moved(from, "data:x").is_err());
    }

    /// Nobody reads it to its end.
    #[test]
    fn a_redirection_without_end() {
        let elsewhere = server(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_vec()]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let endless = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            write!(stream, "HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/\r\n\r\n").unwrap();
            while stream.write_all(&[b'x'; 1000]).is_ok() {}
        });
        let Ok(mut response) = ask(&arguments(&[&address.to_string()])) else { panic!("no answer") };
        assert_eq!(response.body_mut().read_to_string().unwrap(), "hi");
        endless.join().unwrap();
    }

    #[test]
    fn contents() {
        let long: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let plain = [&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len()).into_bytes()[..], &long];
        assert!(fetched(vec![plain.concat()]) == Ok(long));
        let parts = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
        assert_eq!(fetched(vec![parts.to_vec()]), Ok(b"hello!".to_vec()));
        // Without a length, until the connection ends.
        assert_eq!(fetched(vec![b"HTTP/1.0 200 OK\r\n\r\nall".to_vec()]), Ok(b"all".to_vec()));
        let elsewhere = server(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_vec()]);
        let moved = format!("HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(fetched(vec![moved.into_bytes()]), Ok(b"hi".to_vec()));
    }

    #[test]
    fn failures() {
        let error = fetched(vec![b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_vec()]).unwrap_err();
        assert_eq!(error, ("the server's answer is 404 Not Found".to_owned(), REFUSED));
        // It ends too early, or is no HTTP.
        let short = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort".to_vec();
        assert_eq!(fetched(vec![short]).unwrap_err().1, 1);
        assert_eq!(fetched(vec![b"\x1b[2J nonsense\r\n\r\n".to_vec()]).unwrap_err().1, 1);
        // It leads to itself for ever.
        let again = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
        assert_eq!(fetched(vec![again; 20]).unwrap_err().1, 1);
        // It has headers without end.
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"a: b\r\n".repeat(1_000_000)].concat();
        assert_eq!(fetched(vec![endless]).unwrap_err().1, 1);
    }

    #[test]
    fn heads_do_not_act_on_the_terminal() {
        let hostile = b"HTTP/1.1 200 OK\r\nx: a\xc2\x9b2J\xff\r\nContent-Length: 3\r\n\r\n".to_vec();
        let address = server(vec![hostile]);
        let Ok(response) = ask(&arguments(&["-I", &address])) else { panic!("no answer") };
        assert_eq!(head(&response), "HTTP/1.1 200 OK\nx: a\\u{9b}2J\u{fffd}\ncontent-length: 3\n");
    }
}
