module github.com/retrydecider/decider/clients/demo

go 1.26.0

require github.com/retrydecider/decider/clients/go v0.0.0

replace github.com/retrydecider/decider/clients/go => ../go
