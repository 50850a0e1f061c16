//! What pods of the tests run: a static program with the few things that pods do.
//!
//! `probe serve PORT` answers each HTTP request with its host name; `probe get HOST PORT` asks, by name, and prints the
//! body; `probe resolve NAME` prints addresses; `probe write FILE TEXT` and `probe read FILE` use a volume.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["serve", port] => serve(port),
        ["get", host, port] => get(host, port),
        ["resolve", name] => resolve(name),
        ["write", file, text] => std::fs::write(file, text),
        ["read", file] => std::fs::read_to_string(file).map(|text| println!("{text}")),
        _ => Err(std::io::Error::other(
            "usage: probe serve PORT | get HOST PORT | resolve NAME | write FILE TEXT | read FILE",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: &str) -> std::io::Result<()> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let listener = TcpListener::bind(("0.0.0.0", number(port)?))?;
    println!("serving on {port}");
    for stream in listener.incoming().flatten() {
        let name = name.trim().to_owned();
        std::thread::spawn(move || answer(&stream, &name));
    }
    Ok(())
}

fn answer(mut stream: &TcpStream, name: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut lines = BufReader::new(stream).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len())
}

fn get(host: &str, port: &str) -> std::io::Result<()> {
    let address = (host, number(port)?).to_socket_addrs()?.next();
    let address = address.ok_or_else(|| std::io::Error::other(format!("{host} has no address")))?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("{}", answer.split_once("\r\n\r\n").map_or(answer.as_str(), |(_, body)| body));
    Ok(())
}

fn resolve(name: &str) -> std::io::Result<()> {
    for address in (name, 0).to_socket_addrs()? {
        println!("{}", address.ip());
    }
    Ok(())
}

fn number(port: &str) -> std::io::Result<u16> {
    port.parse().map_err(|_| std::io::Error::other(format!("{port:?} is no port")))
}
