//! A relay to a mail server. A test can block it, delay it, and change the data that pass through
//! it.
//!
//! ```ignore
//! let mut relay = Relay::new().await;
//! let service = Service::with(&format!("smtp.address = '{}'", relay.address)).await;
//! relay.set_target(service.mail().submission);
//! ```

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::TEST_TIMEOUT;

/// A relay that forwards data in both directions.
#[derive(Debug)]
pub struct Relay {
    /// The address on which it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    /// `None` while it refuses connections.
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    to: Mutex<Option<SocketAddr>>,
    rewritten: Mutex<Option<[&'static str; 2]>>,
    held_at: Mutex<Option<&'static str>>,
    stalls_at: watch::Sender<Option<&'static str>>,
    /// The number of connections that `stalls_at` holds.
    stalled: watch::Sender<usize>,
    open: watch::Sender<bool>,
    /// Whether data arrived that were not forwarded.
    held: watch::Sender<bool>,
}

impl Relay {
    /// Starts a relay without a target.
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(State {
            to: Mutex::new(None),
            rewritten: Mutex::default(),
            held_at: Mutex::default(),
            stalls_at: watch::Sender::default(),
            stalled: watch::Sender::default(),
            open: watch::Sender::new(true),
            held: watch::Sender::new(false),
        });
        Self {
            address: listener.local_addr().unwrap(),
            accepting: Some(tokio::spawn(accept(listener, state.clone()))),
            state,
        }
    }

    /// Sets the target of new connections.
    pub fn set_target(&self, server: SocketAddr) {
        *self.state.to.lock().unwrap() = Some(server);
    }

    /// Replaces `from` with `to` in data from clients. `from` must arrive in one piece.
    pub fn rewrite(&self, from: &'static str, to: &'static str) {
        *self.state.rewritten.lock().unwrap() = Some([from, to]);
    }

    /// Closes all connections and refuses new ones, like a server that has stopped.
    pub async fn block(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    /// Accepts connections again.
    pub async fn unblock(&mut self) {
        self.block().await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = Some(tokio::spawn(accept(listener, self.state.clone())));
    }

    /// Holds the data for the server until [`Relay::release`]. Data from the server are still
    /// forwarded.
    pub fn hold(&self) {
        self.state.held.send_replace(false);
        self.state.open.send_replace(false);
    }

    /// Holds all data that start at the next line with this text.
    pub fn hold_at(&self, text: &'static str) {
        self.state.held.send_replace(false);
        *self.state.held_at.lock().unwrap() = Some(text);
    }

    /// Waits until data have been held since [`Relay::hold`].
    pub async fn wait_until_held(&self) {
        let mut held = self.state.held.subscribe();
        timeout(TEST_TIMEOUT, held.wait_for(|held| *held))
            .await
            .expect("the relay holds data")
            .unwrap();
    }

    /// Holds only connections on which a client sends this text.
    pub fn stall_at(&self, text: &'static str) {
        self.state.stalls_at.send_replace(Some(text));
    }

    /// Returns the number of connections that [`Relay::stall_at`] holds.
    pub fn stalled_connections(&self) -> usize {
        *self.state.stalled.borrow()
    }

    /// Waits until [`Relay::stall_at`] holds `many` connections.
    pub async fn wait_for_stalled(&self, many: usize) {
        let mut stalled = self.state.stalled.subscribe();
        stalled.wait_for(|stalled| *stalled >= many).await.unwrap();
    }

    /// Forwards the held data and all later data.
    pub fn release(&self) {
        self.state.stalls_at.send_replace(None);
        self.state.open.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// Accepts connections. Dropping this future closes its connections too.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(pass(client, state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn pass(client: TcpStream, state: Arc<State>) {
    let to = *state.to.lock().unwrap();
    let Ok(server) = TcpStream::connect(to.expect("the relay has a target")).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut open = state.open.subscribe();
    let mut stalls_at = state.stalls_at.subscribe();
    let forward = async {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut piece).await {
            let mut data = piece[..length].to_vec();
            let stalls = stalls_at
                .borrow()
                .is_some_and(|text| memmem(&data, text).is_some());
            if stalls {
                state.stalled.send_modify(|stalled| *stalled += 1);
                let _ = stalls_at.wait_for(Option::is_none).await;
                state.stalled.send_modify(|stalled| *stalled -= 1);
            }
            let held_at = *state.held_at.lock().unwrap();
            if let Some(at) = held_at.and_then(|text| memmem(&data, text)) {
                state.held_at.lock().unwrap().take();
                state.open.send_replace(false);
                let line = data[..at].iter().rposition(|byte| *byte == b'\n');
                let rest = data.split_off(line.map_or(0, |end| end + 1));
                if to_server.write_all(&data).await.is_err() {
                    break;
                }
                data = rest;
            }
            if !*open.borrow() {
                state.held.send_replace(true);
            }
            let Ok(_) = open.wait_for(|open| *open).await else {
                break;
            };
            let rewritten = *state.rewritten.lock().unwrap();
            if let Some([from, to]) = rewritten
                && let Some(at) = memmem(&data, from)
            {
                data.splice(at..at + from.len(), to.bytes());
            }
            if to_server.write_all(&data).await.is_err() {
                break;
            }
        }
    };
    let back = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = forward => (),
        _ = back => (),
    }
}

fn memmem(data: &[u8], text: &str) -> Option<usize> {
    data.windows(text.len())
        .position(|piece| piece == text.as_bytes())
}
