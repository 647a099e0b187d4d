//! A web server: <http://127.0.0.1:8080/> on the host, when the machine was started with
//! `--net user,hostfwd=tcp:127.0.0.1:8080-:80`.

#![forbid(unsafe_code)]

use axum::extract::Path;
use axum::routing::{get, post};
use axum::Router;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let pages = Router::new()
        .route("/", get(|| async { "Hello from Zircon on seL4.\n" }))
        .route("/hello/{name}", get(|Path(name): Path<String>| async move { format!("Hello, {name}.\n") }))
        .route("/length", post(|body: String| async move { format!("{} bytes\n", body.len()) }));
    let listener = tokio::net::TcpListener::bind("0.0.0.0:80").await?;
    println!("serving at {}", listener.local_addr()?);
    axum::serve(listener, pages).await
}
