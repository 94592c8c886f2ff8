// An echo server on tokio, started as those of benchmarks/echo/server.h are: PROGRAM PORT --threads N
// [--busy MS]. Each connection is a task; all threads share one runtime.

use std::io::Write;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BUFFER_SIZE: usize = 8192;
const BACKLOG: u32 = 4096;

fn number(name: &str, otherwise: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|a| a == name);
    at.and_then(|i| arguments.get(i + 1))
        .map_or(otherwise, |text| text.parse().expect(name))
}

async fn echo(mut connection: TcpStream) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = [0u8; BUFFER_SIZE];
    loop {
        let n = connection.read(&mut buffer).await?;
        if n == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..n]).await?;
    }
}

async fn compute(span: Duration) {
    loop {
        tokio::time::sleep(span).await;
        let end = Instant::now() + span;
        while Instant::now() < end {}
    }
}

async fn accept(listening: TcpListener) {
    loop {
        let (connection, _) = listening.accept().await.expect("accept");
        tokio::spawn(echo(connection));
    }
}

fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    socket.listen(BACKLOG)
}

extern "C" {
    fn prctl(option: i32, ...) -> i32;
}
const PR_SET_PDEATHSIG: i32 = 1;
const SIGTERM: u64 = 15;

fn main() {
    let port = std::env::args().nth(1).map_or(0, |p| p.parse().expect("port"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(number("--threads", 1) as usize)
        .enable_all()
        .build()
        .expect("runtime");
    let busy = number("--busy", 0);
    if busy != 0 {
        runtime.spawn(compute(Duration::from_millis(busy)));
    }
    let _guard = runtime.enter();
    let listening = listen(port).expect("listen");
    unsafe { prctl(PR_SET_PDEATHSIG, SIGTERM) }; // who starts it may be killed
    println!("listening on {}", listening.local_addr().expect("address"));
    std::io::stdout().flush().expect("standard output");
    // As a task: this thread is none of the runtime's, and only waits.
    runtime.block_on(runtime.spawn(accept(listening))).expect("accepting");
}
