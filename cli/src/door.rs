//! What operators may choose about the door: how soon clients come to proxies that are new.

use clap::Args;

/// The most likely that a request may be the last on its connection, as at kube-apiserver: more would be handshakes and little else.
const MOST_LIKELY: f64 = 0.02;

/// Options of the door.
#[derive(Debug, Args)]
pub(crate) struct DoorArguments {
    /// How likely a request is the last that its connection takes: so clients spread over proxies that were started later. 0 for
    /// never, 0.02 at most.
    #[arg(long, value_name = "CHANCE", default_value = "0.001", value_parser = chance)]
    pub(crate) goaway_chance: f64,
}

// === impl DoorArguments ===

impl DoorArguments {
    /// The same options for another process.
    pub(crate) fn told(&self) -> [[String; 2]; 1] {
        let Self { goaway_chance } = self;
        [["--goaway-chance".to_owned(), goaway_chance.to_string()]]
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
