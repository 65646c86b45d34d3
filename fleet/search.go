package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Search attributes by which Temporal's own page and tools find what belongs to a tag, task, wave or loop. A server has to know them first; on
// one that does not, workflows have none. They are never encrypted: no title is among them.
var (
	byTag  = temporal.NewSearchAttributeKeyKeyword("DescartesTag")
	byTask = temporal.NewSearchAttributeKeyKeyword("DescartesTask")
	byLoop = temporal.NewSearchAttributeKeyKeyword("DescartesLoop")
	byWave = temporal.NewSearchAttributeKeyInt64("DescartesWave")
)

// SearchAttributes are the names and types of the search attributes, as name=Type.
func SearchAttributes() (list []string) {
	for _, k := range keys() {
		list = append(list, k.GetName()+"="+k.GetValueType().String())
	}
	return list
}

func keys() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{byTag, byTask, byLoop, byWave}
}

// Setup makes the server know the search attributes, and says which of them are new to it.
func (s Server) Setup(ctx context.Context) (added []string, err error) {
	opt, err := s.options(nil)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, done := context.WithTimeout(ctx, connectFor)
	defer done()
	namespace := opt.Namespace
	if namespace == "" {
		namespace = client.DefaultNamespace
	}
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list the search attributes of namespace %s: %w", namespace, err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, k := range keys() {
		typ, known := have.GetCustomAttributes()[k.GetName()]
		if known && typ != k.GetValueType() {
			return nil, fmt.Errorf("namespace %s has a search attribute %s of type %s, and a fleet needs %s; remove it with: temporal operator search-attribute remove --name %[2]s",
				namespace, k.GetName(), typ, k.GetValueType())
		}
		if !known {
			missing[k.GetName()] = k.GetValueType()
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if _, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing}); err != nil {
		return nil, fmt.Errorf("add search attributes to namespace %s: %w", namespace, err)
	}
	return slices.Sorted(maps.Keys(missing)), nil
}

// start starts a workflow that can be found by these search attributes, where the server knows them.
func (d *Dispatcher) start(ctx context.Context, o client.StartWorkflowOptions, by []temporal.SearchAttributeUpdate, workflow string, arg any) (client.WorkflowRun, error) {
	if !d.unsearched.Load() {
		o.TypedSearchAttributes = temporal.NewSearchAttributes(by...)
	}
	run, err := d.Client.ExecuteWorkflow(ctx, o, workflow, arg)
	if _, bad := errors.AsType[*serviceerror.InvalidArgument](err); bad && !d.unsearched.Swap(true) {
		o.TypedSearchAttributes = temporal.SearchAttributes{}
		return d.Client.ExecuteWorkflow(ctx, o, workflow, arg)
	}
	return run, err
}
