//! A relay to a mail server. A test can block it, delay it, and change what passes through it.
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

/// Hands on what comes, in both directions.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: SocketAddr,
    way: Arc<Way>,
    /// None while it is barred.
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Way {
    to: Mutex<Option<SocketAddr>>,
    rewritten: Mutex<Option<[&'static str; 2]>>,
    held_at: Mutex<Option<&'static str>>,
    stalls_at: watch::Sender<Option<&'static str>>,
    /// Connections that said it.
    stalled: watch::Sender<usize>,
    open: watch::Sender<bool>,
    /// Whether something came that was not handed on.
    held: watch::Sender<bool>,
}

impl Relay {
    /// One that leads nowhere yet.
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

    /// From now on it leads there.
    pub fn leads_to(&self, server: SocketAddr) {
        *self.way.to.lock().unwrap() = Some(server);
    }

    /// Replaces `from` with `to` in what clients send. `from` must arrive in one piece.
    pub fn rewrites(&self, from: &'static str, to: &'static str) {
        *self.way.rewritten.lock().unwrap() = Some([from, to]);
    }

    /// Cuts every connection, and refuses new ones, as a server does that has ended.
    pub async fn bar(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    /// Takes connections again.
    pub async fn clear(&mut self) {
        self.bar().await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = Some(tokio::spawn(accept(listener, self.way.clone())));
    }

    /// Hands nothing on to the server until [`Relay::release`]. What the server says still comes.
    pub fn hold(&self) {
        self.way.held.send_replace(false);
        self.way.open.send_replace(false);
    }

    /// Holds from the next line that has this text on.
    pub fn hold_at(&self, text: &'static str) {
        self.way.held.send_replace(false);
        *self.way.held_at.lock().unwrap() = Some(text);
    }

    /// Waits until something was to be handed on since [`Relay::hold`].
    pub async fn holds(&self) {
        let mut held = self.way.held.subscribe();
        timeout(EVENTUALLY, held.wait_for(|held| *held))
            .await
            .expect("something is to be handed on")
            .unwrap();
    }

    /// Holds every connection on which a client says this text, and no other.
    pub fn stalls(&self, text: &'static str) {
        self.way.stalls_at.send_replace(Some(text));
    }

    /// How many connections are held by [`Relay::stalls`].
    pub fn stalled(&self) -> usize {
        *self.way.stalled.borrow()
    }

    /// Waits until `many` connections are held by [`Relay::stalls`].
    pub async fn has_stalled(&self, many: usize) {
        let mut stalled = self.way.stalled.subscribe();
        stalled.wait_for(|stalled| *stalled >= many).await.unwrap();
    }

    /// Hands on what was held, and what comes.
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

/// Dropped, it closes its connections too.
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
    let Ok(server) = TcpStream::connect(to.expect("it leads somewhere")).await else {
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
