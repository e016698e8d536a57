//! What operators may choose about the door: whether clients are limited, and how soon they come to proxies that are new.

use clap::{Args, ValueEnum};
use weir_proxy::http::clients::Clients;

/// The most likely that a request may be the last on its connection, as at kube-apiserver: more would be handshakes and little else.
const MOST_LIKELY: f64 = 0.02;

/// Options of the door.
#[derive(Debug, Args)]
pub(crate) struct DoorArguments {
    /// Whether there are limits on what one client, and all together, may cost and have open. Off where something in front of
    /// weir has them.
    #[arg(long, value_name = "on|off", default_value = "on", hide_possible_values = true)]
    client_limits: Switch,
    /// How likely a request is the last that its connection takes: so clients spread over proxies that were started later. 0 for
    /// never, 0.02 at most.
    #[arg(long, value_name = "CHANCE", default_value = "0.001", value_parser = chance)]
    pub(crate) goaway_chance: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

// === impl DoorArguments ===

impl DoorArguments {
    /// What clients may cost.
    pub(crate) fn clients(&self) -> Clients {
        match self.client_limits {
            Switch::On => Clients::default(),
            Switch::Off => Clients::unlimited(),
        }
    }

    /// The same options for another process.
    pub(crate) fn told(&self) -> [[String; 2]; 2] {
        let Self { client_limits, goaway_chance } = self;
        let limits = match client_limits {
            Switch::On => "on",
            Switch::Off => "off",
        };
        [
            ["--client-limits".to_owned(), limits.to_owned()],
            ["--goaway-chance".to_owned(), goaway_chance.to_string()],
        ]
    }
}

fn chance(text: &str) -> Result<f64, String> {
    let chance: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.0..=MOST_LIKELY).contains(&chance) {
        true => Ok(chance),
        false => Err(format!("a chance from 0 to {MOST_LIKELY}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_a_small_share() {
        assert_eq!((chance("0"), chance("0.001"), chance("0.02")), (Ok(0.0), Ok(0.001), Ok(0.02)));
        for text in ["0.03", "-0.001", "1", "NaN", "inf", "", "often"] {
            assert!(chance(text).is_err(), "{text:?}");
        }
    }
}
