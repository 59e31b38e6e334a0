//! A Redis server of one test, without persistence. `scripts/setup --tests` installs the program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::free_address;
use crate::wait_until;

/// The password of the server.
pub const REDIS_PASSWORD: &str = "s3cret-of-redis";

/// The server. Its process ends when it is dropped, or with the thread that started it.
#[derive(Debug)]
pub struct Redis {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Redis {
    /// Starts a server.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("lm-redis")
            .tempdir()
            .unwrap();
        let port = free_address().port();
        let process = spawn(folder.path(), port);
        let server = Self {
            process,
            port,
            folder,
        };
        server.wait_until_ready().await;
        server
    }

    /// Returns the URL of the TCP port.
    pub fn url(&self) -> String {
        format!("redis://:{REDIS_PASSWORD}@127.0.0.1:{}/0", self.port)
    }

    /// Returns the URL of the Unix socket.
    pub fn socket_url(&self) -> String {
        format!("unix://{}?pass={REDIS_PASSWORD}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Ends the server. All data is lost.
    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the server again after [`stop`](Self::stop), on the same port.
    pub async fn start_again(&mut self) {
        self.process = spawn(self.folder.path(), self.port);
        self.wait_until_ready().await;
    }

    /// Stops the execution of the server. The connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Removes all keys, as after a restart.
    pub async fn remove_all_keys(&self) {
        let mut connection = self.connect().await;
        let command = redis::cmd("FLUSHALL");
        command.query_async::<()>(&mut connection).await.unwrap();
    }

    /// Opens a connection.
    pub async fn connect(&self) -> MultiplexedConnection {
        self.try_connect().await.unwrap()
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let client = redis::Client::open(self.url())?;
        client.get_multiplexed_async_connection().await
    }

    async fn wait_until_ready(&self) {
        wait_until("the Redis server responds", async || {
            self.try_connect().await.is_ok()
        })
        .await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the program. The signal of `setpriv` ends it even if the test is killed.
fn spawn(folder: &Path, port: u16) -> Child {
    let port = port.to_string();
    let socket = folder.join("redis.sock").display().to_string();
    let folder = folder.display().to_string();
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "redis-server"])
        .args(["--bind", "127.0.0.1", "--port", &port])
        .args(["--unixsocket", &socket, "--dir", &folder])
        .args(["--save", "", "--appendonly", "no"])
        .args(["--requirepass", REDIS_PASSWORD]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = command.spawn();
    started.expect("scripts/setup --tests installs redis-server")
}
