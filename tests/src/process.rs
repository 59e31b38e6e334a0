//! Measures and ends processes. The service of a test and its clients run in the test's process, so
//! the results include both.

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Returns the number of open descriptors of this process.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the resident memory of this process, in KiB.
pub fn memory() -> u64 {
    memory_of(getpid())
}

/// Returns the resident memory of a process, in KiB.
pub fn memory_of(process: Pid) -> u64 {
    let status = read(process, "status");
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .unwrap();
    kib.parse().unwrap()
}

/// Returns a loopback address for a program that cannot choose a free port itself. The system gives
/// its port to no other program before this one binds it. Until the program binds the port, further
/// calls return the same address.
pub fn free_address() -> SocketAddr {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let mut addresses = (first..32_000).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let free = addresses.find(|address| TcpListener::bind(address).is_ok());
    free.unwrap_or_else(|| panic!("no port is free from {first} on"))
}

/// Returns different free addresses of one loopback address.
pub fn free_addresses<const N: usize>(ip: Ipv4Addr) -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((ip, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// Returns the child processes of a process, with their names.
pub fn children_of(parent: Pid) -> Vec<(Pid, String)> {
    let parent = parent.as_raw_nonzero().to_string();
    let is_child = |pid: &Pid| {
        let status = read(*pid, "status");
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        line.is_some_and(|of| of.trim() == parent)
    };
    let children = pids().into_iter().filter(is_child);
    children
        .map(|pid| (pid, read(pid, "comm").trim().to_owned()))
        .collect()
}

/// Returns the process with this name whose command line contains the path of a folder.
pub fn pid_of(name: &str, folder: &Path) -> Option<Pid> {
    let folder = folder.display().to_string();
    let mut pids = pids().into_iter();
    pids.find(|pid| read(*pid, "comm").trim() == name && read(*pid, "cmdline").contains(&folder))
}

/// Kills a process, if it exists.
pub fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}

/// Sends a signal to a process and to all its descendants, as far as they exist. Does not find
/// processes that start concurrently.
pub fn signal_tree(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
    for (child, _) in children_of(pid) {
        signal_tree(child, signal);
    }
}

/// Returns the number of open TCP connections of a process to an IPv4 address.
pub fn connections_to(pid: Pid, address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else {
        panic!("{address} is not an IPv4 address");
    };
    // The kernel prints the address as a number in the byte order of the machine.
    let ip = u32::from_ne_bytes(address.ip().octets());
    let remote = format!("{ip:08X}:{:04X}", address.port());
    let table = read(pid, "net/tcp");
    let established = table.lines().map(|line| line.split_whitespace().collect());
    let established =
        established.filter(|line: &Vec<&str>| line.get(2) == Some(&&*remote) && line[3] == "01");
    let sockets: HashSet<String> = established
        .map(|line| format!("socket:[{}]", line[9]))
        .collect();
    let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets
        .filter(|target| sockets.contains(&*target.to_string_lossy()))
        .count()
}

fn pids() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

fn read(pid: Pid, file: &str) -> String {
    let text = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}
