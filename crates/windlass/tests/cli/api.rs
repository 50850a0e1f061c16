//! A cluster's API in small: answers what it was told to, and nothing else.
//!
//! Inputs: documents by path. Outputs: a port on loopback, the requests that came.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What it answers and was asked.
#[derive(Default)]
struct Board {
    documents: Mutex<BTreeMap<String, Value>>,
    requests: Mutex<Vec<(String, Value)>>,
}

/// A running API; it ends with the test.
pub(crate) struct Api {
    port: u16,
    board: Arc<Board>,
}

impl Api {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let board = Arc::new(Board::default());
        let shared = board.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let board = shared.clone();
                std::thread::spawn(move || answer(stream, &board));
            }
        });
        let api = Self { port, board };
        let version = ["major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
        let mut document: Value =
            version.map(|field| (field.to_owned(), "".into())).into_iter().collect::<serde_json::Map<_, _>>().into();
        document["gitVersion"] = "v1.37.2".into();
        api.set("/version", document);
        api
    }

    /// Answers this path with a document from now on.
    pub(crate) fn set(&self, path: &str, document: Value) {
        self.board.documents.lock().expect("whole").insert(path.to_owned(), document);
    }

    /// Answers this path with a list.
    pub(crate) fn set_list(&self, path: &str, items: &[Value]) {
        self.set(path, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}));
    }

    /// Bodies of the requests with this method and path.
    pub(crate) fn asked(&self, request: &str) -> Vec<Value> {
        let requests = self.board.requests.lock().expect("whole");
        requests.iter().filter(|(line, _)| line == request).map(|(_, body)| body.clone()).collect()
    }

    pub(crate) fn kubeconfig(&self) -> String {
        kubeconfig(self.port)
    }
}

/// A kubeconfig for an API on this port of loopback.
pub(crate) fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\n\
         clusters: [{{name: lab, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
         users: [{{name: lab, user: {{}}}}]\ncontexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]\n"
    )
}

fn answer(stream: TcpStream, board: &Board) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let path = target.split('?').next()?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    board.requests.lock().ok()?.push((format!("{method} {path}"), body));
    let found = board.documents.lock().ok()?.get(&path).cloned();
    let missing = || json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404});
    let (status, document) = found.map_or_else(|| ("404 Not Found", missing()), |document| ("200 OK", document));
    let text = document.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut stream = stream;
    stream.write_all((head + &text).as_bytes()).ok()
}
