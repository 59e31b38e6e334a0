//! A relay to a mail server. A test can block it, delay it, and change the data that pass through it.
//!
//! ```ignore
//! let mut relay = Relay::new().await;
//! let service = Service::with(&format!("smtp.address = '{}'", relay.address)).await;
//! relay.leads_to(service.mail().submission);
//! ```

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::EVENTUALLY;

/// Forwards data in both directions.
#[derive(Debug)]
pub struct Relay {
    /// The address on which it listens.
    pub address: SocketAddr,
    way: Arc<Way>,
    /// `None` while it refuses connections.
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Way {
    to: Mutex<Option<SocketAddr>>,
    rewritten: Mutex<Option<[&'static str; 2]>>,
    held_at: Mutex<Option<&'static str>>,
    stalls_at: watch::Sender<Option<&'static str>>,
    /// The number of connections whose client has sent the text.
    stalled: watch::Sender<usize>,
    open: watch::Sender<bool>,
    /// Whether data arrived that were not forwarded.
    held: watch::Sender<bool>,
}

impl Relay {
    /// A relay without a target.
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = Arc::new(Way {
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
            accepting: Some(tokio::spawn(accept(listener, way.clone()))),
            way,
        }
    }

    /// Sets the target of new connections.
    pub fn leads_to(&self, server: SocketAddr) {
        *self.way.to.lock().unwrap() = Some(server);
    }

    /// Replaces `from` with `to` in what clients send. `from` must arrive in one piece.
    pub fn rewrites(&self, from: &'static str, to: &'static str) {
        *self.way.rewritten.lock().unwrap() = Some([from, to]);
    }

    /// Closes all connections and refuses new ones, like a server that has stopped.
    pub async fn bar(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    /// Accepts connections again.
    pub async fn clear(&mut self) {
        self.bar().await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = Some(tokio::spawn(accept(listener, self.way.clone())));
    }

    /// Forwards nothing to the server until [`Relay::release`]. The server's data are still forwarded.
    pub fn hold(&self) {
        self.way.held.send_replace(false);
        self.way.open.send_replace(false);
    }

    /// Holds data from the next line with this text on.
    pub fn hold_at(&self, text: &'static str) {
        self.way.held.send_replace(false);
        *self.way.held_at.lock().unwrap() = Some(text);
    }

    /// Waits until data have been held since [`Relay::hold`].
    pub async fn holds(&self) {
        let mut held = self.way.held.subscribe();
        timeout(EVENTUALLY, held.wait_for(|held| *held))
            .await
            .expect("the relay holds data")
            .unwrap();
    }

    /// Holds each connection on which a client sends this text, and no other.
    pub fn stalls(&self, text: &'static str) {
        self.way.stalls_at.send_replace(Some(text));
    }

    /// The number of connections that [`Relay::stalls`] holds.
    pub fn stalled(&self) -> usize {
        *self.way.stalled.borrow()
    }

    /// Waits until [`Relay::stalls`] holds `many` connections.
    pub async fn has_stalled(&self, many: usize) {
        let mut stalled = self.way.stalled.subscribe();
        stalled.wait_for(|stalled| *stalled >= many).await.unwrap();
    }

    /// Forwards the held data and all later data.
    pub fn release(&self) {
        self.way.stalls_at.send_replace(None);
        self.way.open.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// Dropping this future closes its connections too.
async fn accept(listener: TcpListener, way: Arc<Way>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(pass(client, way.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn pass(client: TcpStream, way: Arc<Way>) {
    let to = *way.to.lock().unwrap();
    let Ok(server) = TcpStream::connect(to.expect("the relay has a target")).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut open = way.open.subscribe();
    let mut stalls_at = way.stalls_at.subscribe();
    let there = async {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut piece).await {
            let mut said = piece[..length].to_vec();
            let stalls = stalls_at
                .borrow()
                .is_some_and(|text| memmem(&said, text).is_some());
            if stalls {
                way.stalled.send_modify(|stalled| *stalled += 1);
                let _ = stalls_at.wait_for(Option::is_none).await;
                way.stalled.send_modify(|stalled| *stalled -= 1);
            }
            let held_at = *way.held_at.lock().unwrap();
            if let Some(at) = held_at.and_then(|text| memmem(&said, text)) {
                way.held_at.lock().unwrap().take();
                way.open.send_replace(false);
                let line = said[..at].iter().rposition(|byte| *byte == b'\n');
                let rest = said.split_off(line.map_or(0, |end| end + 1));
                if to_server.write_all(&said).await.is_err() {
                    break;
                }
                said = rest;
            }
            if !*open.borrow() {
                way.held.send_replace(true);
            }
            let Ok(_) = open.wait_for(|open| *open).await else {
                break;
            };
            let rewritten = *way.rewritten.lock().unwrap();
            if let Some([from, to]) = rewritten
                && let Some(at) = memmem(&said, from)
            {
                said.splice(at..at + from.len(), to.bytes());
            }
            if to_server.write_all(&said).await.is_err() {
                break;
            }
        }
    };
    let back = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = there => (),
        _ = back => (),
    }
}

fn memmem(said: &[u8], text: &str) -> Option<usize> {
    said.windows(text.len())
        .position(|piece| piece == text.as_bytes())
}
